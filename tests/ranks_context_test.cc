// Jobs whose ranks share sequences (context_parallel_size), as threads of this process, beside one rank with the same
// global batch: losses and norms agree as two orders of summation do, and plans change no bit.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/load.h"
#include "io/file.h"
#include "tests/support/captured.h"
#include "tests/support/preference_run.h"
#include "tests/support/ranks_run.h"
#include "tests/support/tiny_job.h"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

constexpr int kContextSteps = 4;

nlohmann::json json_file(const fs::path& path) { return nlohmann::json::parse(read_file(path, 1 << 24)); }

// Trains on `groups` groups of `context` ranks, with four micro-batches a step.
void train_shared(const TinyJob& job, const std::string& name, int groups, int context, const Arguments& more) {
  CAPTURE(name);
  const Arguments all = more + Arguments{"--gradient_accumulation_steps",
                                         std::to_string(4 / groups),
                                         "--max_steps",
                                         std::to_string(kContextSteps),
                                         "--val_set_size",
                                         "2",
                                         "--eval_steps",
                                         "2",
                                         "--bf16",
                                         "false",
                                         "--context_parallel_size",
                                         std::to_string(context)};
  for (const std::string& error : run_over_ranks(groups * context, job.train(name, all))) CHECK(error == "");
}

// The numbers of metrics.jsonl that ranks must agree on, by line and key: all but times, memory, what follows from the
// loss, and the loads of experts, which ranks that share sequences do not count.
std::map<std::string, double> metric_numbers(const TinyJob& job, const std::string& name) {
  std::map<std::string, double> numbers;
  const std::string text = read_file(job.output(name) / "metrics.jsonl", 1 << 24);
  int number = 0;
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1, ++number) {
    const nlohmann::json line = nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin));
    for (const auto& [key, value] : line.items()) {
      const bool is_of_machine = key.find("second") != std::string::npos || key.starts_with("memory/");
      if (is_of_machine || key.ends_with("perplexity") || key.starts_with("expert")) continue;
      numbers[std::to_string(number) + " " + key] = value.get<double>();
    }
  }
  return numbers;
}

// Trains a case of tests/golden/preference_training on `groups` groups of `context` ranks.
void train_preferences(const TinyJob& job, const std::string& name, const std::string& test, int groups, int context,
                       const Arguments& more) {
  const fs::path folder = preference_goldens() / "cases" / test;
  const std::string file = (folder / "config.yml").string();
  const config::Spelled keys = config::check_config_file(file, {}, config::ConfigUse::kTrain).keys;
  Arguments all = {"train", file, "--output_dir", job.output(name).string()};
  const auto add = [&](const char* key, const std::string& path) {
    if (!path.empty()) all = all + Arguments{key, (folder / path).lexically_normal().string()};
  };
  add("--base_model", keys.base_model);
  add("--lora_model_dir", keys.lora_model_dir);
  add("--ref_model", keys.ref_model);
  add("--datasets.0.path", keys.datasets.at(0).config.path);
  all = all + more +
        Arguments{"--gradient_accumulation_steps",
                  std::to_string(2 / groups),
                  "--max_steps",
                  std::to_string(kContextSteps),
                  "--val_set_size",
                  "3",
                  "--eval_steps",
                  "2",
                  "--context_parallel_size",
                  std::to_string(context)};
  for (const std::string& error : run_over_ranks(groups * context, all)) CHECK(error == "");
}

void check_close_numbers(const TinyJob& job, const std::string& one, const std::string& several) {
  const std::map<std::string, double> expected = metric_numbers(job, one), got = metric_numbers(job, several);
  CHECK(expected.size() >= 6);
  CHECK(got.size() == expected.size());
  for (const auto& [key, number] : expected) {
    CAPTURE(several);
    CAPTURE(key);
    REQUIRE(got.contains(key));
    CHECK(std::abs(got.at(key) - number) <= 1e-5 * std::max(1.0, std::abs(number)));
  }
}

struct SharedRanks {
  int groups, context;
};

void check_shared(const TinyJob& job, const Arguments& more, std::initializer_list<SharedRanks> all) {
  train_shared(job, "one", 1, 1, more);
  for (const auto& [groups, context] : all) {
    const std::string name = fmt::format("{}x{}", groups, context);
    train_shared(job, name, groups, context, more);
    check_close_numbers(job, "one", name);
  }
}

Arguments model_of(const std::string& name) {
  return {"--base_model", (fs::path(SPILLWAY_SOURCE_DIR) / "tests/golden/models" / name).string()};
}

}  // namespace

TEST_CASE("LoRA with dropout, an evaluation and several groups has the numbers of one rank") {
  const TinyJob job;
  check_shared(job, {}, {{1, 2}, {2, 2}, {1, 4}});
}

TEST_CASE("full fine-tuning on packed rows, with noise on embeddings, has the numbers of one rank") {
  const TinyJob job;
  check_shared(job,
               model_of("qwen3_tied") + Arguments{"--adapter", "none", "--learning_rate", "0.001", "--sample_packing",
                                                  "true", "--sequence_len", "23", "--neftune_noise_alpha", "5"},
               {{1, 2}, {1, 4}, {2, 2}});
}

TEST_CASE("windows, sinks and quantised weights of shared sequences have the numbers of one rank") {
  const TinyJob windows;  // of six tokens, in a mixture
  check_shared(windows, model_of("gpt_oss") + Arguments{"--router_aux_loss_coef", "0"}, {{1, 2}, {1, 4}});
  const TinyJob quantised;
  check_shared(quantised, {"--adapter", "qlora", "--load_in_4bit", "true"}, {{1, 2}});
}

TEST_CASE("a mixture's load-balancing loss is that of all tokens where ranks share sequences") {
  const Arguments balanced =
      model_of("mixtral") +
      Arguments{"--router_aux_loss_coef", "0.2",  "--lora_dropout", "0", "--lora_target_linear", "false",
                "--lora_target_modules",  "gate", "q_proj"};
  const TinyJob adapter;
  check_shared(adapter, balanced, {{1, 2}, {2, 2}});
  CHECK(metric_numbers(adapter, "one").contains("0 aux_loss"));
  const TinyJob full;
  check_shared(
      full,
      model_of("qwen3_moe") + Arguments{"--router_aux_loss_coef", "0.2", "--adapter", "none", "--learning_rate",
                                        "0.001", "--sample_packing", "true", "--sequence_len", "23"},
      {{1, 2}, {1, 4}});
}

TEST_CASE("feed-forward parts in tiles have the numbers of one rank where ranks share sequences") {
  const TinyJob job;
  check_shared(job,
               Arguments{"--adapter", "none", "--learning_rate", "0.001", "--micro_batch_size", "4", "--tiled_mlp",
                         "true", "--tiled_mlp_num_shards", "2"},
               {{1, 2}});
}

TEST_CASE("layers that share keys have the numbers of one rank where ranks share sequences") {
  const TinyJob job;
  check_shared(job, model_of("gemma4_e2b") + Arguments{"--adapter", "none", "--learning_rate", "0.001"}, {{1, 2}});
}

TEST_CASE("layers that carry a state along sequences have the numbers of one rank where ranks share these") {
  // A short convolution; the gated delta rule; Mamba's scan; Mamba-2, by itself and beside attention.
  for (const char* model : {"lfm2", "qwen3_next", "jamba", "nemotron_h", "falcon_h1"}) {
    CAPTURE(model);
    const TinyJob job;
    check_shared(job,
                 model_of(model) + Arguments{"--adapter", "none", "--learning_rate", "0.001", "--sample_packing",
                                             "true", "--sequence_len", "23", "--router_aux_loss_coef", "0"},
                 {{1, 2}, {1, 4}});
  }
}

TEST_CASE("rows shorter than the ranks are many have the numbers of one rank") {
  const TinyJob job;
  std::string rows;
  for (int i = 0; i < 24; ++i)
    rows +=
        nlohmann::json{{"input_ids", {i, 3 * i % 96}}, {"labels", {i, 3 * i % 96}}, {"attention_mask", {1, 1}}}.dump() +
        "\n";
  job.write_rows(rows);
  check_shared(job, {"--micro_batch_size", "1"}, {{1, 4}});
}

TEST_CASE("preferences of shared sequences have the losses, metrics and norms of one rank, whatever the loss") {
  for (const char* test :
       {"dpo_sigmoid_lora", "dpo_mix_full", "dpo_ld_alpha_lora", "dpo_weighting_lora", "dpo_aot_unpaired_lora",
        "dpo_sync_full", "dpo_other_lora", "kto_kto_lora", "kto_apo_zero_unpaired_full", "orpo_lora",
        "cpo_sigmoid_full", "simpo_alpha1_lora", "reward_centred_lora", "reward_margin_lora", "process_full"}) {
    CAPTURE(std::string(test));
    const TinyJob job;
    train_preferences(job, "one", test, 1, 1, {});
    train_preferences(job, "two", test, 1, 2, {});
    check_close_numbers(job, "one", "two");
  }
}

TEST_CASE("groups that share sequences deal out preferences, and rows that the reference scores before training") {
  for (const char* test : {"dpo_sigmoid_full", "dpo_precompute_full", "kto_kto_full"}) {
    CAPTURE(std::string(test));
    const TinyJob job;
    train_preferences(job, "one", test, 1, 1, {});
    train_preferences(job, "groups", test, 2, 2, {});
    check_close_numbers(job, "one", "groups");
    train_preferences(job, "four", test, 1, 4, {"--zero_stage", "3"});
    check_close_numbers(job, "one", "four");
    train_preferences(job, "disk", test, 1, 4,
                      {"--zero_stage", "2", "--gradient_checkpointing", "true", "--activation_offloading", "disk"});
    CHECK(read_file(job.output("four") / "model.safetensors", 1 << 26) ==
          read_file(job.output("disk") / "model.safetensors", 1 << 26));
  }
}

TEST_CASE("plans change no bit of what ranks that share sequences learn") {
  const TinyJob job;
  const Arguments shared = {"--adapter", "none", "--learning_rate", "0.001"};
  train_shared(job, "kept", 1, 2, shared);
  const Arguments plans[] = {{"--gradient_checkpointing", "true"},
                             {"--gradient_checkpointing", "true", "--activation_offloading", "disk"},
                             {"--optimizer_offload", "host", "--gradient_offload", "disk"},
                             {"--zero_stage", "3"},
                             {"--micro_batch_order", "vertical"},
                             {"--micro_batch_order", "vertical", "--micro_batch_group", "3", "--zero_stage", "3"}};
  for (size_t i = 0; i < std::size(plans); ++i) {
    CAPTURE(i);
    const std::string name = "plan_" + std::to_string(i);
    train_shared(job, name, 1, 2, shared + plans[i]);
    CHECK(read_file(job.output(name) / "model.safetensors", 1 << 26) ==
          read_file(job.output("kept") / "model.safetensors", 1 << 26));
  }
}

TEST_CASE("models that read no positions take sequences that ranks share layer by layer, too") {
  const TinyJob job;
  const Arguments jamba =
      model_of("jamba") + Arguments{"--adapter", "none", "--learning_rate", "0.001", "--micro_batch_order"};
  train_shared(job, "horizontal", 1, 2, jamba + Arguments{"horizontal"});
  train_shared(job, "vertical", 1, 2, jamba + Arguments{"vertical"});
  CHECK(read_file(job.output("vertical") / "model.safetensors", 1 << 26) ==
        read_file(job.output("horizontal") / "model.safetensors", 1 << 26));
  CHECK(metric_numbers(job, "vertical") == metric_numbers(job, "horizontal"));
}

TEST_CASE("groups that share sequences take them layer by layer with the bits of one micro-batch after another") {
  const TinyJob job;
  // Two epochs of 11 micro-batches, of different lengths, in steps of 4.
  const Arguments shared = {"--adapter", "none", "--learning_rate", "0.001", "--micro_batch_order"};
  train_shared(job, "horizontal", 2, 2, shared + Arguments{"horizontal"});
  train_shared(job, "vertical", 2, 2, shared + Arguments{"vertical"});
  CHECK(read_file(job.output("vertical") / "model.safetensors", 1 << 26) ==
        read_file(job.output("horizontal") / "model.safetensors", 1 << 26));
  CHECK(metric_numbers(job, "vertical") == metric_numbers(job, "horizontal"));
  train_preferences(job, "pairs", "dpo_sigmoid_full", 1, 2, {"--micro_batch_order", "horizontal"});
  train_preferences(job, "pairs_vertical", "dpo_sigmoid_full", 1, 2, {"--micro_batch_order", "vertical"});
  CHECK(metric_numbers(job, "pairs_vertical") == metric_numbers(job, "pairs"));
}

TEST_CASE("ranks that share sequences have their share of activations, as planned") {
  const TinyJob job;
  const Arguments wide = {"--sequence_len", "64", "--micro_batch_size", "16", "--gradient_checkpointing", "false"};
  const auto activations_of = [&](const std::string& name, int context) {
    train_shared(job, name, 1, context, wide);
    const nlohmann::json report = json_file(job.output(name) / "report.json");
    const nlohmann::json& device = context == 1 ? report["tiers"]["device"] : report["ranks"][1]["tiers"]["device"];
    CHECK(device["measured_peak_bytes"] == device["planned_peak_bytes"]);
    const nlohmann::json at_peak = json_file(job.output(name) / "plan.json")["tiers"]["device"]["by_kind"];
    return at_peak["saved_activation"].get<double>() + at_peak["transient"].get<double>();
  };
  const double whole = activations_of("one", 1), half = activations_of("two", 2);
  CHECK(whole > 1e6);
  CHECK(half <= 0.6 * whole);
}

TEST_CASE("the program trains ranks that share sequences under mpirun, and plans them") {
  const TinyJob job;
  const Arguments shared = {"--max_steps", "3", "--val_set_size", "2", "--bf16", "false"};
  CHECK(run_spillway(job.train("one", shared + Arguments{"--gradient_accumulation_steps", "2"})).status == 0);
  const Arguments two = shared + Arguments{"--ranks", "2", "--context_parallel_size", "2"};
  const Finished run = run_spillway(job.train("two", two));
  INFO(run.err);
  CHECK(run.status == 0);
  check_close_numbers(job, "one", "two");

  Arguments plan = job.train("plan", two + Arguments{"--json"});
  plan.front() = "plan";
  const Finished planned = run_spillway(plan);
  INFO(planned.err);
  CHECK(planned.status == 0);
  const nlohmann::json page = nlohmann::json::parse(planned.out);
  CHECK(page["context_parallel_size"] == 2);
  CHECK(page["ranks"][0]["sent_bytes_per_step"] > 0);
}
