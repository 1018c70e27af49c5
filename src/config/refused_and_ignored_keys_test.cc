// Tests of keys without an effect: those not yet supported, those that other trainers have dropped, those that do
// nothing in a job.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"
#include "tests/support/config_error.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::error_of;
using spillway::testing::load;
using spillway::testing::small_config;

TEST_CASE("what is to come says not yet, and is accepted while it is off") {
  CHECK(error_of("mora: true\n").find("adapters with square matrices (MoRA) not yet supported") != std::string::npos);
  CHECK(error_of("adapter: mora\n") ==
        "[c.yml:6: adapter] expected none, lora or qlora, got 'mora'; adapters with square matrices are not yet "
        "supported, choose another");
  CHECK(error_of("optimizer: ao_adamw_fp8\n").find("8-bit optimizer states are not yet supported") !=
        std::string::npos);
  for (const char* line : {"rl: xpo", "spectrum_top_fraction: 0.5", "trl: {replay_buffer_size: 8}"}) {
    CAPTURE(std::string(line));
    CHECK(error_of(std::string(line) + "\n").find("not yet supported") != std::string::npos);
  }
  CHECK(error_of("load_in_4bit: no\nrl:\nactivation_offloading: false\nparameter_offload: none\nfp16: false\nfsdp: []\n"
                 "plugins: [axolotl.integrations.liger.LigerPlugin]\nloss_watchdog_patience: 3\n")
            .empty());
  CHECK(error_of("s2_attention: true\n") ==
        "[c.yml:6: s2_attention] expected no value or false, got 'true'; axolotl dropped it: remove the key");
}

TEST_CASE("no advice would train something else") {
  CHECK(error_of("rl: xpo\n") ==
        "[c.yml:6: rl] expected none, dpo, ipo, simpo, cpo, orpo, kto, grpo, gdpo, rloo, online_dpo or ppo, got 'xpo'; "
        "XPO is not yet supported");
  for (const char* line : {"use_eaft: true", "optim_target_modules: [a]", "plugins: [x]",
                           "deepspeed: {scheduler: {params: {warmup_min_lr: 1}}}", "diffusion: true", "fp8: true"}) {
    CAPTURE(std::string(line));
    CHECK(error_of(std::string(line) + "\n").find("remove") == std::string::npos);
  }
  for (const char* line :
       {"num_machines: 2", "s2_attention: true", "past_index: 3", "deepspeed: {bf16: {bf16_optimizer_states: true}}"}) {
    CAPTURE(std::string(line));
    CHECK(error_of(std::string(line) + "\n").find(": remove the key") != std::string::npos);
  }
  const LoadedConfig rows = check_config(small_config("rl: xpo\n"), "c.yml", {}, ConfigUse::kPreprocess);
  CHECK(first_problem(rows).find("XPO is not yet supported") != std::string::npos);
  CHECK(first_problem(rows).find("choose another") == std::string::npos);
}

TEST_CASE("keys of packing, streams, samples and EAFT are ignored by name where there is none of these") {
  for (const char* line : {"sample_packing_bin_size: 3\n", "packing_strategy: wrapped\n", "eaft_k: 3\n",
                           "streaming_multipack_buffer_size: 50\n", "sample_max_new_tokens: 9\n"}) {
    const std::string key(line, std::string_view(line).find(':'));
    CHECK(load(line).ignored == std::vector<std::string>{key});
  }
  CHECK(load("sample_packing: true\nsample_packing_bin_size: 3\n").ignored.empty());
  CHECK(load("use_eaft: true\neaft_k: 3\n").ignored.empty());
}

TEST_CASE("ignored keys are listed in one line, with what is done instead") {
  const LoadedConfig loaded =
      load("wandb_project: x\nflash_attention: true\ntf32: auto\nwandb_name: y\nliger_rope: true\n");
  CHECK(ignored_line(loaded) ==
        "ignored: wandb_project, wandb_name (report_to: wandb writes a run that `wandb sync` sends); flash_attention, "
        "tf32, liger_rope (it concerns kernels of other trainers; here the result is the same)");
  CHECK(ignored_line(load()).empty());
}

TEST_CASE("keys of rows without a type are ignored by name where all rows have one") {
  const std::string untyped = "{path: a.jsonl}", typed = "{path: b.jsonl, type: alpaca}";
  const std::string keys = "completion_only_loss: false\nassistant_only_loss: true\ndataset_text_field: body\n";
  const auto ignored = [&](const std::string& datasets) {
    return check_config("base_model: m\noutput_dir: o\nlearning_rate: 1e-3\nmax_steps: 1\n" + datasets + keys, "c.yml",
                        {}, ConfigUse::kTrain)
        .ignored;
  };
  CHECK(ignored("datasets: [" + typed + "]\n") ==
        std::vector<std::string>{"completion_only_loss", "assistant_only_loss", "dataset_text_field"});
  CHECK(ignored("datasets: [" + typed + ", " + untyped + "]\n").empty());
  CHECK(ignored("datasets: [" + typed + "]\ntest_datasets: [" + untyped + "]\n").empty());
}
