#include "config/verdict.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "config/keys.h"
#include "config/load.h"
#include "tests/support/small_config.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::small_config;

namespace {

LoadedConfig check(std::string_view more, std::vector<ConfigOverride> overrides = {}) {
  return check_config(small_config(more), "c.yml", overrides, ConfigUse::kTrain);
}

LoadedConfig check_example(std::string_view name) {
  const std::string examples = SPILLWAY_SOURCE_DIR "/examples/";
  std::vector<ConfigOverride> overrides;
  if (name.find("zero3") != std::string_view::npos) overrides = {{"deepspeed", examples + "zero3_offload.json"}};
  const ConfigUse use = name == "rewards" ? ConfigUse::kRewards : ConfigUse::kTrain;
  return check_config_file(fmt::format("{}{}.yml", examples, name), overrides, use);
}

// "verdict: note" of one key; empty where it has none.
std::string verdict_of(const LoadedConfig& loaded, std::string_view key) {
  for (const KeyVerdict& one : loaded.verdicts.keys()) {
    if (one.key == key) return fmt::format("{}{}{}", name_of(one.verdict), one.note.empty() ? "" : ": ", one.note);
  }
  return "";
}

}  // namespace

TEST_CASE("a pattern of ignored keys begins no key that is followed or refused") {
  std::vector<const ConfigKey*> patterns, others;
  for (const KeySection& section : config_sections()) {
    for (const ConfigKey& key : section.keys) {
      const bool is_pattern = key.name.ends_with('*');
      if (is_pattern && key.status == KeyStatus::kIgnored) patterns.push_back(&key);
      if (!is_pattern && key.status != KeyStatus::kIgnored) others.push_back(&key);
    }
  }
  CHECK(patterns.size() > 10);
  for (const ConfigKey* pattern : patterns) {
    const std::string_view begin = pattern->name.substr(0, pattern->name.size() - 1);
    for (const ConfigKey* key : others) {
      CAPTURE(std::string(pattern->name));
      CAPTURE(std::string(key->name));
      CHECK_FALSE(key->name.starts_with(begin));
      for (const std::string_view alias : key->aliases) CHECK_FALSE(alias.starts_with(begin));
    }
  }
}

TEST_CASE("what several ranks split is ignored where one trains") {
  const LoadedConfig loaded = check("zero_stage: 3\ncontext_parallel_size: 4\nnum_processes: 1\n");
  CHECK(verdict_of(loaded, "zero_stage").starts_with("ignored: one rank trains"));
  CHECK(verdict_of(loaded, "context_parallel_size").starts_with("ignored: one rank trains"));
  CHECK(verdict_of(loaded, "num_processes") == "supported");
  CHECK(first_problem(check("zero_stage: auto\n")).empty());
}

TEST_CASE("keys that only begin like ignored ones are unknown") {
  for (const char* key : {"grpo_beta", "grpo_epsilon", "generation_batch_sise", "generation_kwargs.tmperature",
                          "generation_kwargs.num_beams", "kd_trainr", "dataloader_drop_lst", "hub_model_idd"}) {
    CAPTURE(std::string(key));
    CHECK(first_problem(check("", {{key, "3"}})).find("expected a known key") != std::string::npos);
  }
}

TEST_CASE("every key has its verdict") {
  const LoadedConfig loaded = check(
      "per_device_train_batch_size: 4\nmicro_batch_size: 4\nwandb_watch: x\nmora: true\nload_in_8bit: "
      "false\n"
      "rope_scaling: x\ncomet_project_name: e\nlora_rr: 3\nseed: many\nadapter: mora\nlora_r: 8\ntrl: {beta: 0.1, "
      "betta: "
      "1}\n"
      "test_datasets:\n  - path: b\n    feild: y\n    shards: 3\n  - 7\n");
  CHECK(verdict_of(loaded, "base_model") == "supported");
  CHECK(verdict_of(loaded, "datasets.0.type") == "supported");
  CHECK(verdict_of(loaded, "per_device_train_batch_size") == "supported: is micro_batch_size");
  CHECK(verdict_of(loaded, "micro_batch_size") == "supported: another per_device_train_batch_size");
  CHECK(verdict_of(loaded, "wandb_watch").starts_with("ignored: a tracker is given"));
  CHECK(verdict_of(loaded, "mora").starts_with("not yet: expected no value or false, got 'true'"));
  CHECK(verdict_of(loaded, "load_in_8bit") == "supported");
  CHECK(verdict_of(loaded, "comet_project_name").starts_with("ignored: "));
  CHECK(verdict_of(loaded, "rope_scaling").starts_with("refused"));
  CHECK(verdict_of(loaded, "lora_rr").find("did you mean lora_r?") != std::string::npos);
  CHECK(verdict_of(loaded, "seed").starts_with("wrong: expected an integer"));
  CHECK(verdict_of(loaded, "adapter").starts_with("not yet"));
  CHECK(verdict_of(loaded, "trl.beta") == "supported: is rl_beta");
  CHECK(verdict_of(loaded, "trl.betta").find("did you mean trl.beta?") != std::string::npos);
  CHECK(verdict_of(loaded, "test_datasets.0.path") == "supported");
  CHECK(verdict_of(loaded, "test_datasets.0.feild").find("did you mean field?") != std::string::npos);
  CHECK(verdict_of(loaded, "test_datasets.1").starts_with("wrong: expected a mapping with a path"));
  CHECK(loaded.ignored == std::vector<std::string>{"wandb_watch", "comet_project_name"});
}

TEST_CASE("what is wrong comes before what is refused, that before what is to come, conflicts last") {
  CHECK(first_problem(check("")).empty());
  CHECK(first_problem(check("rl: grpo\nrope_scaling: x\nseed: x\n")).find("seed") != std::string::npos);
  CHECK(first_problem(check("rl: grpo\nrope_scaling: x\n")).find("rope_scaling") != std::string::npos);
  CHECK(first_problem(check("warmup_steps: 1\nwarmup_ratio: 0.1\nrl: xpo\n")).find("got 'xpo'") != std::string::npos);
  CHECK(check("warmup_steps: 1\nwarmup_ratio: 0.1\nrl: xpo\n").conflict.find("warmup_ratio, got both") !=
        std::string::npos);
  CHECK(check("adapter: mora\nlora_model_dir: x\n").conflict.empty());
}

TEST_CASE("keys of a quantised base mean nothing where none is asked for") {
  const std::string kwargs =
      "bnb_config_kwargs: {bnb_4bit_quant_type: fp4, bnb_4bit_use_double_quant: true, llm_int8_skip_modules: "
      "[k_proj]}\n";
  const LoadedConfig off = check("adapter: lora\nlora_r: 8\n" + kwargs);
  CHECK(verdict_of(off, "bnb_config_kwargs.bnb_4bit_quant_type") == "ignored: load_in_4bit is off");
  CHECK(verdict_of(off, "bnb_config_kwargs.bnb_4bit_use_double_quant") == "ignored: load_in_4bit is off");
  CHECK(verdict_of(off, "bnb_config_kwargs.llm_int8_skip_modules").starts_with("ignored: load_in_4bit and"));
  const LoadedConfig on = check("adapter: qlora\nlora_r: 8\nload_in_4bit: true\n" + kwargs);
  CHECK(verdict_of(on, "bnb_config_kwargs.bnb_4bit_quant_type") == "supported");
}

TEST_CASE("the command line and sections of other programs have verdicts, too") {
  const LoadedConfig loaded = check(
      "deepspeed: {gradient_clipping: 1, fp16: {enabled: true}, steps_per_print: 3, zero_optimization: {stage: 3, x: "
      "1}}\n",
      {{"seed", "3"}, {"sead", "3"}});
  CHECK(verdict_of(loaded, "seed") == "supported");
  CHECK(verdict_of(loaded, "sead").find("did you mean seed?") != std::string::npos);
  CHECK(verdict_of(loaded, "deepspeed.gradient_clipping") == "supported: is max_grad_norm");
  CHECK(verdict_of(loaded, "deepspeed.fp16.enabled") == "supported: is fp16");
  CHECK(verdict_of(loaded, "deepspeed.steps_per_print").starts_with("ignored"));
  CHECK(verdict_of(loaded, "deepspeed.zero_optimization.stage").starts_with("ignored"));
  CHECK(verdict_of(loaded, "deepspeed.zero_optimization.x").starts_with("wrong"));
  CHECK(verdict_of(check("fsdp: [full_shard, offload]\n"), "fsdp.offload") == "supported: is parameter_offload");
}

TEST_CASE("what axolotl refuses and Spillway does is said in a line") {
  CHECK(check("activation_offloading: true\ngradient_checkpointing: false\n").notes.size() == 1);
  CHECK(check("activation_offloading: true\ngradient_checkpointing: true\nselective_checkpointing: true\n")
            .notes.size() == 1);
  CHECK(check("batch_size: 4\nmicro_batch_size: 2\nactivation_offloading: true\ngradient_checkpointing: true\n")
            .notes.empty());
}

TEST_CASE("the name of a chat template is looked at without the tokenizer") {
  CHECK(verdict_of(check("chat_template: chatml\n"), "chat_template") == "supported");
  CHECK(verdict_of(check("chat_template: chatmll\n"), "chat_template").find("did you mean chatml?") !=
        std::string::npos);
  CHECK(verdict_of(check("chat_template: gemma4\n"), "chat_template") == "supported");
  const LoadedConfig loaded = check("test_datasets: [{path: x, type: chat_template, chat_template: nonesuch}]\n");
  CHECK(verdict_of(loaded, "test_datasets.0.chat_template").starts_with("wrong: expected alpaca"));
}

TEST_CASE("a stream of rows needs a number of steps") {
  CHECK(check("pretraining_dataset: [{path: x}]\n").conflict.find("expected max_steps beside it, got none") !=
        std::string::npos);
  CHECK(check("pretraining_dataset: [{path: x}]\nmax_steps: 3\n").conflict.empty());
}

TEST_CASE("beside a stream only rows of test_datasets are kept") {
  const std::string keys = "pretraining_dataset: [{path: x}]\nmax_steps: 3\ndataset_prepared_path: p\n";
  CHECK(verdict_of(check(keys), "dataset_prepared_path") == "ignored: a stream is not kept");
  CHECK(verdict_of(check(keys + "test_datasets: [{path: y}]\n"), "dataset_prepared_path") == "supported");
}

TEST_CASE("verdicts on text to pretrain on stand at its own key, and what it replaces is ignored") {
  const LoadedConfig loaded = check("pretraining_dataset: [{path: x, type: nonesuch}]\nmax_steps: 3\n");
  CHECK(verdict_of(loaded, "pretraining_dataset.0.path") == "supported");
  CHECK(verdict_of(loaded, "pretraining_dataset.0.type").starts_with("wrong: expected"));
  CHECK(verdict_of(loaded, "datasets.0.path") == "ignored: pretraining_dataset takes the place of datasets");
}

TEST_CASE("the example configs ask for nothing but what is there") {
  size_t configs = 0;
  const std::filesystem::path examples = SPILLWAY_SOURCE_DIR "/examples";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(examples)) {
    if (entry.path().extension() != ".yml") continue;
    CAPTURE(entry.path().string());
    const std::filesystem::path name = std::filesystem::relative(entry.path(), examples).replace_extension();
    CHECK(first_problem(check_example(name.string())).empty());
    ++configs;
  }
  CHECK(configs >= 19);
}

TEST_CASE("a file of another kind is given up on, quickly") {
  std::string text;
  for (int i = 0; i < 40000; ++i) text += fmt::format("learnin_rate{}: 1\n", i);
  const LoadedConfig loaded = check_config(text, "c.yml", {}, ConfigUse::kTrain);
  CHECK(loaded.verdicts.keys().size() == 100);
  CHECK(first_problem(loaded).starts_with("[c.yml:1: learnin_rate0] expected a known key"));
}
