#include <doctest/doctest.h>

#include "base/error.h"
#include "config/load.h"
#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::load_for_ranks, spillway::testing::ranks_error;

namespace {

// The expected numbers are those of axolotl and transformers: micro-batches of a rank times ranks.
struct RankStep {
  int64_t micro_batch_size, micro_batches;
  bool operator==(const RankStep&) const = default;
};
// Checks a job on so many ranks that generates in micro-batches of eight.
LoadedConfig check_online(std::string_view more, int64_t ranks) {
  const std::string text = fmt::format(
      "base_model: ./m\nlearning_rate: 1e-4\nrl: grpo\ndatasets: [{{path: a.jsonl}}]\n"
      "reward_funcs: [think_format_reward]\nmicro_batch_size: 8\n{}",
      more);
  return check_config(text, "c.yml", {}, ConfigUse::kTrain, ranks);
}

RankStep step_of(std::string_view more, int64_t ranks = 0) {
  const BatchSettings& batches = load_for_ranks(more, ranks).config.batches;
  return {batches.micro_batch_size, batches.gradient_accumulation_steps};
}

}  // namespace

TEST_CASE("a step has the micro-batches of all ranks") {
  CHECK(load_for_ranks("").config.ranks.count == 1);
  CHECK(load_for_ranks("num_processes: 3\nddp_timeout: 60\n").config.ranks.count == 3);
  CHECK(load_for_ranks("num_processes: 3\nddp_timeout: 60\n").config.ranks.timeout_seconds == 60);
  CHECK(load_for_ranks("num_gpus: -1\n").config.ranks.count == 1);
  CHECK(load_for_ranks("num_gpus: 2\n").config.ranks.count == 2);
  CHECK(load_for_ranks("", 4).config.ranks.count == 4);
  CHECK(step_of("num_processes: 4\nmicro_batch_size: 2\ngradient_accumulation_steps: 3\n") == RankStep{2, 12});
  CHECK(step_of("micro_batch_size: 2\ngradient_accumulation_steps: 3\n", 4) == RankStep{2, 12});
  CHECK(step_of("micro_batch_size: 2\nbatch_size: 6\n", 4) == RankStep{2, 12});
  CHECK(load_for_ranks("gradient_accumulation_steps: 3\n", 4).config.data.batches.step_batches == 12);
  // Sizes of data parallelism are the ranks' own, not further rows.
  CHECK(step_of("dp_shard_size: 2\ndp_replicate_size: 2\ngradient_accumulation_steps: 3\n", 4) == RankStep{1, 12});
}

TEST_CASE("DeepSpeed's train_batch_size is the rows of all ranks, and gives what is missing") {
  CHECK(step_of("micro_batch_size: 2\ndeepspeed: {train_batch_size: 24}\n", 4) == RankStep{2, 12});
  CHECK(step_of("gradient_accumulation_steps: 3\ndeepspeed: {train_batch_size: 24}\n", 4) == RankStep{2, 12});
  CHECK(step_of("gradient_accumulation_steps: 4\ndeepspeed: {train_batch_size: 8}\n") == RankStep{2, 4});
  CHECK(step_of("num_processes: 4\nmicro_batch_size: 2\ngradient_accumulation_steps: 3\n"
                "deepspeed: {train_batch_size: 24}\n") == RankStep{2, 12});
  CHECK(
      ranks_error("micro_batch_size: 2\ngradient_accumulation_steps: 3\ndeepspeed: {train_batch_size: 6}\n", 4) ==
      "[c.yml:8: deepspeed.train_batch_size] expected micro_batch_size x gradient_accumulation_steps x ranks, 2 x 3 x "
      "4, got 6; change one of them");
  CHECK(
      ranks_error("micro_batch_size: 2\ndeepspeed: {train_batch_size: 12}\n", 4) ==
      "[c.yml:7: deepspeed.train_batch_size] expected a multiple of micro_batch_size, 2, times 4 ranks, got 12; change "
      "one of them");
}

TEST_CASE("the config and the launcher have the same number of ranks") {
  CHECK(ranks_error("num_processes: 4\n", 2) ==
        "[c.yml:6: num_processes] expected 2, the ranks that the launcher has started, got 4; change it, or remove it");
  CHECK(ranks_error("num_processes: 2\n", 2).empty());
  CHECK(ranks_error("num_processes: 1\n", 2).find("expected 2") != std::string::npos);
  CHECK(ranks_error("num_processes: 0\n").find("[c.yml:6: num_processes] expected an integer of at least 1") == 0);
  CHECK(ranks_error("dp_shard_size: 3\n", 4) ==
        "[c.yml:6: dp_shard_size] expected a divisor of the number of ranks, 4, got 3; change it, or remove it");
  CHECK(ranks_error("dp_shard_size: 2\ndp_replicate_size: 4\n", 4) ==
        "[c.yml:7: dp_replicate_size] expected dp_shard_size x dp_replicate_size to be the number of ranks, 4, got 2 x "
        "4; change one of them");
}

TEST_CASE("a round has the completions of all ranks, as TRL counts them") {
  const auto round_of = [](std::string_view more, int64_t ranks) {
    return check_online(more, ranks).config.online->steps_per_generation;
  };
  CHECK(round_of("gradient_accumulation_steps: 3\n", 2) == 6);
  CHECK(round_of("steps_per_generation: 2\n", 2) == 4);
  CHECK(round_of("steps_per_generation: 2\n", 0) == 2);
  CHECK(round_of("generation_batch_size: 32\n", 2) == 4);
}

TEST_CASE("what is said of FSDP's words depends on the number of ranks") {
  const auto verdict_on = [](std::string_view more, std::string_view key, int64_t ranks) {
    const LoadedConfig loaded = load_for_ranks(more, ranks);
    for (const KeyVerdict& one : loaded.verdicts.keys())
      if (one.key == key) return fmt::format("{}: {}", name_of(one.verdict), one.note);
    return std::string();
  };
  CHECK(verdict_on("fsdp: [full_shard]\n", "fsdp.full_shard", 2) == "supported: is zero_stage");
  CHECK(verdict_on("fsdp: [full_shard]\n", "fsdp.full_shard", 0) == "ignored: on one rank there is nothing to shard");
  CHECK(verdict_on("fsdp: [hybrid_shard]\n", "fsdp.hybrid_shard", 2) ==
        "supported: is zero_stage and dp_shard_size, the ranks of a host");
  const std::string_view section = "fsdp_config: {reshard_after_forward: false}\n";
  CHECK(verdict_on(section, "fsdp_config.reshard_after_forward", 2) == "supported: is zero_stage");
  CHECK(verdict_on(section, "fsdp_config.reshard_after_forward", 0).find("ignored: on one rank") == 0);
  for (const int64_t ranks : {1, 2}) {
    CHECK(ranks_error("deepspeed: {communication_data_type: fp32}\n", ranks).empty());
    CHECK(ranks_error("deepspeed: {communication_data_type: bf16}\n", ranks).find("expected fp32, got 'bf16'") !=
          std::string::npos);
  }
}

TEST_CASE("states are split over groups of ranks, by everybody's words") {
  struct Split {
    int stage;
    int64_t copies;
    bool chooses = false, by_host = false;
    bool operator==(const Split&) const = default;
  };
  const auto split_of = [](std::string_view more, int64_t ranks = 4) {
    const RankSettings one = load_for_ranks(more, ranks).config.ranks;
    return Split{one.zero_stage, one.copies, one.chooses_stage, one.shards_by_host};
  };
  CHECK(split_of("") == Split{2, 1, true});
  CHECK(split_of("zero_stage: 2\n") == Split{2, 1});
  CHECK(split_of("dp_shard_size: 2\n") == Split{2, 2, true});
  CHECK(split_of("dp_replicate_size: 2\nzero_stage: 3\n") == Split{3, 2});
  CHECK(split_of("hsdp_replicate_dim: 2\nhsdp_shard_dim: -1\nzero_stage: 3\n") == Split{3, 2});
  CHECK(split_of("hsdp_replicate_dim: 2\nhsdp_shard_dim: 2\nzero_stage: 1\n") == Split{1, 2});
  CHECK(split_of("deepspeed: {zero_optimization: {stage: 3, mics_shard_size: 2}}\n") == Split{3, 2});
  CHECK(split_of("deepspeed: {zero_optimization: {stage: 3, mics_shard_size: -1}}\n") == Split{3, 1});
  CHECK(split_of("parallelism_config: {dp_shard_size: 2, dp_replicate_size: 2, cp_size: 1}\n") == Split{2, 2, true});
  CHECK(split_of("parallelism_config: {parallelism_config_dp_shard_size: 2}\nzero_stage: 3\n") == Split{3, 2});
  CHECK(split_of("fsdp: [hybrid_shard]\n") == Split{3, 1, false, true});
  CHECK(split_of("fsdp_config: {sharding_strategy: HYBRID_SHARD_ZERO2}\n") == Split{2, 1, false, true});
  CHECK(split_of("fsdp: [hybrid_shard]\ndp_shard_size: 2\n") == Split{3, 2});
  // As many copies as ranks split nothing, which is stage 0; and it splits over all ranks what it does.
  CHECK(split_of("dp_replicate_size: 4\n") == Split{0, 1});
  CHECK(split_of("dp_shard_size: 1\nzero_stage: 3\n") == Split{0, 1});
  CHECK(load_for_ranks("dp_shard_size: 1\nzero_stage: 3\n", 4).notes.size() == 1);
  CHECK(split_of("dp_shard_size: 2\nzero_stage: 0\n") == Split{0, 1});
  CHECK(split_of("dp_shard_size: 4\ndp_replicate_size: 1\n") == Split{2, 1, true});
  RankSettings of_hosts = load_for_ranks("fsdp: [hybrid_shard]\n", 4).config.ranks;
  of_hosts.place_on_hosts(2);
  CHECK(of_hosts.copies == 2);
  CHECK(ranks_error("dp_shard_size: 0\n", 4).find("expected -1 or an integer of at least 1, got 0") !=
        std::string::npos);
  CHECK(ranks_error("hsdp_shard_dim: 3\n", 4).find("hsdp_shard_dim] expected a divisor") != std::string::npos);
  CHECK(ranks_error("deepspeed: {zero_optimization: {stage: 3, mics_shard_size: 3}}\n", 4)
            .find("mics_shard_size] expected a divisor") != std::string::npos);
  CHECK(ranks_error("parallelism_config: {dp_shard_sizes: 2}\n", 4).find("did you mean dp_shard_size?") !=
        std::string::npos);
}

TEST_CASE("ranks share sequences in groups, which share out the micro-batches") {
  for (const char* line : {"context_parallel_size: 2", "sequence_parallel_degree: 2", "sp_size: 2",
                           "context_parallel: {size: 2}", "deepspeed: {sequence_parallel_size: 2}",
                           "parallelism_config: {cp_size: 2}", "parallelism_config: {sp_size: 2, cp_size: 1}"}) {
    CAPTURE(std::string(line));
    CHECK(ranks_error(fmt::format("{}\n", line)).empty());
    const Config config = load_for_ranks(fmt::format("{}\ngradient_accumulation_steps: 3\n", line), 4).config;
    CHECK(config.ranks.context == 2);
    CHECK(config.ranks.groups() == 2);
    CHECK(config.batches.gradient_accumulation_steps == 6);
  }
  for (const char* lines : {"deepspeed: {train_batch_size: 24, sequence_parallel_size: 2}\n",
                            "deepspeed: {train_batch_size: 24}\nparallelism_config: {cp_size: 2}\n",
                            "deepspeed: {train_batch_size: 24}\nsp_size: 2\n"})
    CHECK(step_of(fmt::format("micro_batch_size: 2\n{}", lines), 4) == RankStep{2, 12});
  CHECK(ranks_error("context_parallel_size: 3\n", 4)
            .find("context_parallel_size] expected a divisor of the number of "
                  "ranks, 4, got 3") != std::string::npos);
  CHECK(ranks_error("sp_size: 4\n", 2).find("sp_size] expected a divisor") != std::string::npos);
  CHECK(first_problem(check_online("context_parallel_size: 2\n", 2))
            .find("context_parallel_size] expected 1 beside "
                  "online reinforcement learning, got 2") != std::string::npos);
  CHECK(first_problem(check_online("context_parallel_size: 2\n", 1)).empty());
}

TEST_CASE("what several ranks cannot split yet says so, and one rank does without") {
  for (const char* line : {"tensor_parallel_size: 2", "expert_parallel_size: 2", "parallelism_config: {tp_size: 2}",
                           "deepspeed: {tensor_parallel: {autotp_size: 2}}"}) {
    CAPTURE(std::string(line));
    CHECK(ranks_error(fmt::format("{}\n", line)).empty());
    CHECK(ranks_error(fmt::format("{}\n", line), 2).find("not yet supported") != std::string::npos);
  }
  for (const char* line :
       {"zero_stage: 0", "zero_stage: 2", "zero_stage: 3", "zero_stage: auto", "fsdp: [no_shard]", "fsdp: [full_shard]",
        "fsdp_config: {reshard_after_forward: true}", "deepspeed: {zero_optimization: {stage: 3}}",
        "fsdp: shard_grad_op", "fsdp_config: {reshard_after_forward: false}",
        "fsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}", "deepspeed: {zero_optimization: {stage: 1}}",
        "tensor_parallel_size: 1", "deepspeed: {zero_optimization: {stage: 0}}",
        "deepspeed: {tensor_parallel: {autotp_size: 0}}"}) {
    CAPTURE(std::string(line));
    CHECK(ranks_error(fmt::format("{}\n", line), 2).empty());
  }
  CHECK(ranks_error("tensor_parallel_size: 2\n", 2) ==
        "[c.yml:6: tensor_parallel_size] expected 1 beside several ranks, got 2; zero_stage: 3 splits weights over "
        "ranks, products that ranks share are not yet supported");
  const std::string streams = "ds3_gather_for_generation: false\n";
  CHECK(first_problem(check_online(streams, 2)).empty());
  CHECK(first_problem(check_online(streams + "zero_stage: 3\n", 2)).empty());
  CHECK(ranks_error("zero_stage: 5\n").find("[c.yml:6: zero_stage] expected auto, 0, 1, 2 or 3, got '5'") == 0);
  CHECK(ranks_error("zero_stage: 1\ndeepspeed: {zero_optimization: {stage: 2}}\n").find("mean the same") !=
        std::string::npos);
  CHECK(ranks_error("deepspeed: {zero_optimization: {stage: 3, zero_quantized_weights: true}}\n")
            .find("changes the result") != std::string::npos);
  CHECK(ranks_error("deepspeed: {zero_optimization: {stage: 3, zero_quantized_weights: false}}\n").empty());
}
