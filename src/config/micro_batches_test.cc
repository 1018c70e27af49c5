#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "config/load.h"
#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::load_for_ranks, spillway::testing::ranks_error;

namespace {

int64_t group_of(std::string_view more) { return load_for_ranks(more).config.batches.micro_batch_group; }
std::vector<int64_t> others_of(std::string_view more) { return load_for_ranks(more).config.batches.other_groups; }
constexpr std::string_view kVerticalOrder = "micro_batch_order: vertical\ngradient_accumulation_steps: ";
std::string vertical(int accumulation, std::string_view more = "") {
  return fmt::format("{}{}\n{}", kVerticalOrder, accumulation, more);
}

}  // namespace

TEST_CASE("micro-batches go one after another, or all of a step up to 16 together, or as many as the config says") {
  CHECK(group_of("gradient_accumulation_steps: 4\n") == 1);
  CHECK(group_of("micro_batch_order: horizontal\ngradient_accumulation_steps: 4\n") == 1);
  CHECK(group_of(vertical(4)) == 4);
  CHECK(group_of(vertical(64)) == 16);
  CHECK(group_of(vertical(5, "micro_batch_group: 2\n")) == 2);
  CHECK(group_of(vertical(5, "micro_batch_group: auto\n")) == group_of(vertical(5, "")));
  CHECK(group_of("micro_batch_order: vertical\nmicro_batch_size: 2\nbatch_size: 6\n") == 3);
}

TEST_CASE("the plan may choose groups of all of a step, or of a half of it, a quarter, ...") {
  const auto horizontally = [](int accumulation, std::string_view more = "") {
    return fmt::format("gradient_accumulation_steps: {}\n{}", accumulation, more);
  };
  CHECK(others_of(horizontally(1)).empty());
  CHECK(others_of(horizontally(8)) == std::vector<int64_t>{8, 4, 2});
  CHECK(others_of(horizontally(5)) == std::vector<int64_t>{5, 3, 2});
  CHECK(others_of(horizontally(40)) == std::vector<int64_t>{14, 7, 4, 2});
  CHECK(others_of(horizontally(8, "micro_batch_group: 3\n")) == std::vector<int64_t>{3});
  CHECK(group_of(horizontally(8, "micro_batch_group: 3\n")) == 1);
  CHECK(others_of(horizontally(8, "micro_batch_order: horizontal\n")).empty());
  CHECK(others_of(horizontally(8, "memory: {plan: fixed}\n")).empty());
  CHECK(others_of(vertical(8)) == std::vector<int64_t>{4, 2});
  CHECK(others_of(vertical(8, "micro_batch_group: 3\n")).empty());
}

TEST_CASE(
    "passes without a backward pass may take groups of up to 16, or as the config says, unless order or plan is "
    "fixed") {
  const auto most_of = [](std::string_view more, int64_t ranks = 0) {
    return load_for_ranks(more, ranks).config.batches.forward_group;
  };
  CHECK(most_of("") == 16);
  CHECK(most_of("micro_batch_order: horizontal\n") == 1);
  CHECK(most_of("memory: {plan: fixed}\n") == 1);
  CHECK(most_of("memory: {plan: fixed}\nmicro_batch_order: vertical\n") == 16);
  CHECK(most_of(vertical(4, "micro_batch_group: 3\n")) == 3);
  CHECK(most_of("expert_offload: host\n") == 16);
  CHECK(most_of("", 2) == 16);
  CHECK(most_of("context_parallel_size: 2\n", 2) == 16);
}

TEST_CASE("vertical with one micro-batch in a step is horizontal, which is said once") {
  const LoadedConfig loaded = load_for_ranks(vertical(1));
  CHECK(loaded.config.batches.micro_batch_group == 1);
  const auto of_order = [](const std::string& note) { return note.starts_with("micro_batch_order: "); };
  CHECK(std::count_if(loaded.notes.begin(), loaded.notes.end(), of_order) == 1);
}

TEST_CASE("a group that cannot be meant says why") {
  for (const char* wrong : {"0", "1", "17", "2.5"}) {
    CAPTURE(wrong);
    const std::string error = ranks_error(vertical(20, fmt::format("micro_batch_group: {}\n", wrong)));
    CHECK(error.starts_with("[c.yml:8: micro_batch_group] expected "));
  }
  CHECK(ranks_error(vertical(4, "micro_batch_group: 5\n")) ==
        "[c.yml:8: micro_batch_group] expected at most the micro-batches of a step, 4, got 5; lower it, or raise "
        "gradient_accumulation_steps");
  CHECK(ranks_error("micro_batch_order: horizontal\ngradient_accumulation_steps: 4\nmicro_batch_group: 2\n") ==
        "[c.yml:8: micro_batch_group] expected micro_batch_order: vertical or auto beside it, got horizontal; write "
        "one of them, or remove the key");
}

TEST_CASE("a group that is set where no plan chooses groups is ignored aloud") {
  const auto ignored = [](std::string_view more, int64_t ranks = 0) {
    const LoadedConfig loaded =
        load_for_ranks(fmt::format("gradient_accumulation_steps: 4\nmicro_batch_group: 2\n{}", more), ranks);
    return std::find(loaded.ignored.begin(), loaded.ignored.end(), "micro_batch_group") != loaded.ignored.end();
  };
  CHECK_FALSE(ignored(""));
  CHECK(ignored("memory: {plan: fixed}\n"));
  CHECK_FALSE(ignored("memory: {plan: fixed}\nmicro_batch_order: vertical\n"));
  CHECK_FALSE(ignored("", 2));
  CHECK_FALSE(ignored("expert_offload: host\n"));
  CHECK_FALSE(ignored("context_parallel_size: 2\n", 2));
}

TEST_CASE("each of several ranks takes its own micro-batches of a step layer by layer") {
  const auto load = [](std::string_view more, int64_t ranks) {
    return load_for_ranks(fmt::format("gradient_accumulation_steps: 4\n{}", more), ranks).config.batches;
  };
  CHECK(load("", 2).other_groups == std::vector<int64_t>{4, 2});
  CHECK(load("micro_batch_order: vertical\n", 2).micro_batch_group == 4);
  CHECK(ranks_error(vertical(4, "micro_batch_group: 5\n"), 2).find("expected at most") != std::string::npos);
}

TEST_CASE("ranks that share sequences take micro-batches layer by layer, too") {
  const std::string shared = "context_parallel_size: 2\n";
  CHECK(load_for_ranks("gradient_accumulation_steps: 4\n" + shared, 2).config.batches.other_groups ==
        std::vector<int64_t>{4, 2});
  CHECK(load_for_ranks(vertical(4, shared), 2).config.batches.micro_batch_group == 4);
}

TEST_CASE("more tiles than a micro-batch has tokens are refused") {
  const std::string rows = "micro_batch_size: 2\nsequence_len: 16\ntiled_mlp: true\n";
  CHECK(load_for_ranks(rows + "tiled_mlp_num_shards: 32\n").config.batches.mlp_tiles == 32);
  CHECK(ranks_error(rows + "tiled_mlp_num_shards: 33\n")
            .find("tiled_mlp_num_shards] expected at most the tokens of a "
                  "micro-batch, 32, got 33") != std::string::npos);
}

TEST_CASE("completions and a teacher's rows go layer by layer as others do") {
  const std::string online =
      "base_model: ./m\nlearning_rate: 2e-4\ndatasets: [{path: a.jsonl}]\nrl: grpo\n"
      "reward_funcs: [get_repetition_penalty_reward]\nmicro_batch_size: 8\n" +
      vertical(4);
  CHECK(load_config(online, "c.yml", {}, ConfigUse::kTrain).config.batches.micro_batch_group == 4);
  CHECK(group_of(vertical(4, "kd_trainer: true\nteacher_model_name_or_path: ./t\n")) == 4);
}
