// The defaults of axolotl's schema and TRL's dataclasses, as tools/make_config_goldens.py asks them.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/bytes.h"
#include "config/keys.h"
#include "config/load.h"
#include "io/file.h"
#include "tests/support/small_config.h"

using namespace spillway;
using namespace spillway::config;
using nlohmann::json;

namespace {

const json& golden() {
  static const json kGolden =
      json::parse(read_file(SPILLWAY_SOURCE_DIR "/tests/golden/config_values.json", int64_t{1} << 20));
  return kGolden;
}

const std::string kTrl = "model_name_or_path: ./m\ndataset_name: a.jsonl\n";

LoadedConfig load_trl(const std::string& more = "") { return load_config(kTrl + more, "c.yml", {}, ConfigUse::kTrain); }

// A value as its key prints it.
std::string printed(const ConfigKey& key, const json& value) {
  Spelled keys;
  key.read(parse_yaml(value.dump(), "golden"), {"golden", 1, std::string(key.name)}, &keys);
  return key.print(&keys);
}

std::set<std::string> kinds_of(std::string_view key) {
  std::set<std::string> kinds;
  for (const char* program : {"axolotl", "trl"}) {
    const std::string all = golden()[program].value(std::string(key), "") + " ";
    for (size_t begin = 0, end = 0; (end = all.find(' ', begin)) != std::string::npos; begin = end + 1) {
      if (end > begin) kinds.insert(all.substr(begin, end - begin));
    }
  }
  return kinds;
}

std::string problem_of(std::string_view key, std::string_view value) {
  return first_problem(check_config(spillway::testing::small_config(fmt::format("{}: {}\n", key, value)), "c.yml", {},
                                    ConfigUse::kTrain));
}

}  // namespace

TEST_CASE("TRL's steps of a strategy that does not count them are passed over, as transformers does") {
  const LoadedConfig epochs =
      load_trl("save_strategy: epoch\nsave_steps: 500\neval_strategy: epoch\neval_steps: 50\nval_set_size: 0.1\n");
  const OutputSettings& output = epochs.config.output;
  CHECK(output.save.steps(100, 25) == 25);
  CHECK(output.evaluate.steps(100, 25) == 25);
  CHECK(epochs.ignored == std::vector<std::string>{"save_steps", "eval_steps"});
  const LoadedConfig never = load_trl("save_strategy: \"no\"\nsave_steps: 500\n");
  CHECK(never.config.output.save.steps(100, 25) == 0);
  CHECK(load_trl("save_strategy: steps\nsave_steps: 50\n").config.output.save.steps(100, 25) == 50);
}

TEST_CASE("what a TRL config leaves out has the default of trl sft") {
  const LoadedConfig loaded = load_trl();
  const Config& config = loaded.config;
  const Spelled keys = loaded.keys, peft = load_trl("use_peft: true\n").keys;
  // The plan decides; evaluation needs rows that a key of axolotl's names, and has the batch of training.
  const std::set<std::string, std::less<>> ours = {"gradient_checkpointing", "activation_checkpointing",
                                                   "eval_strategy", "per_device_eval_batch_size"};
  // The values of ours that mean the same as those of TRL.
  const std::map<std::string, std::string, std::less<>> same = {{"activation_offloading", ""},
                                                                {"adam_beta1", ""},
                                                                {"adam_beta2", ""},
                                                                {"adam_epsilon", ""},
                                                                {"dtype", "auto"},
                                                                {"load_best_model_at_end", ""},
                                                                {"loss_type", ""},
                                                                {"max_steps", ""},
                                                                {"model_revision", ""},
                                                                {"padding_free", "auto"},
                                                                {"project", ""},
                                                                {"save_steps", ""},
                                                                {"shuffle_dataset", ""},
                                                                {"use_peft", ""},
                                                                {"warmup_steps", ""},
                                                                {"dataset_train_split", ""},
                                                                {"dataset_test_split", ""},
                                                                {"dataset_streaming", "false"}};
  int compared = 0;
  for (const auto& [name, value] : golden()["trl_defaults"].items()) {
    const ConfigKey* key = find_key(name);
    CAPTURE(name);
    if (is_key_group(name)) continue;
    REQUIRE(key != nullptr);
    if (key->status != KeyStatus::kSupported || value.is_null() || ours.contains(name)) continue;
    const bool is_lora = name.starts_with("lora_") || name == "use_bnb_nested_quant";
    const auto known = same.find(name);
    CHECK(key->print(is_lora ? &peft : &keys) == (known == same.end() ? printed(*key, value) : known->second));
    ++compared;
  }
  CHECK(compared > 35);
  CHECK(config.data.datasets.at(0).split == "train");
  CHECK(config.output.save.steps(10000, 100) == 500);
}

TEST_CASE("each default of trl sft can be written down") {
  for (const auto& [name, value] : golden()["trl_defaults"].items()) {
    if (name == "output_dir" || value.is_null()) continue;
    CAPTURE(name);
    const LoadedConfig loaded =
        check_config(fmt::format("{}{}: {}\n", kTrl, name, value.dump()), "c.yml", {}, ConfigUse::kTrain);
    CHECK(first_problem(loaded).empty());
  }
}

TEST_CASE("a config is TRL's by the way it names its data, and says what it says") {
  const auto load = [](const std::string& text) { return load_config(text, "c.yml", {}, ConfigUse::kTrain).config; };
  CHECK(load("model_name_or_path: m\ndatasets: [{path: a}]\n").schedule.learning_rate == 2e-5);
  CHECK(
      load("model_name_or_path: m\nlearning_rate: 1\ndatasets: [{path: a, type: alpaca}]\n").batches.micro_batch_size ==
      1);
  CHECK(load("base_model: m\nlearning_rate: 1\ndatasets: [{path: a}]\n").schedule.num_epochs == 1);
  CHECK_THROWS_AS((void)load("base_model: m\ndatasets: [{path: a}]\n"), InputError);
  const Config said = load(kTrl +
                           "learning_rate: 1e-3\nbatch_size: 4\nmicro_batch_size: 2\nsaves_per_epoch: 2\n"
                           "sequence_len: 64\noutput_dir: o\nbf16: false\nlr_scheduler: constant\n");
  CHECK(said.schedule.learning_rate == 1e-3);
  CHECK(said.batches.gradient_accumulation_steps == 2);
  CHECK(said.output.save.steps(100, 10) == 5);
  CHECK(said.batches.sequence_len == 64);
  CHECK(said.data.rows.length_rules == LengthRules::kAxolotl);
  CHECK(said.output.output_dir == "o");
  CHECK_FALSE(said.model.bf16);
  CHECK(said.schedule.lr_scheduler.name == "constant");
}

TEST_CASE("values of ignored keys have the form that axolotl or TRL takes") {
  const std::pair<const char*, const char*> kValues[] = {{"flag", "true"}, {"integer", "3"},   {"number", "0.5"},
                                                         {"text", "xyz"},  {"list", "[a, b]"}, {"map", "{a: b}"}};
  // Refused for the value, not for its form.
  const std::set<std::string, std::less<>> others = {"push_dataset_to_hub"};
  std::set<std::string> names;
  for (const char* program : {"axolotl", "trl"}) {
    for (const auto& [name, kinds] : golden()[program].items()) names.insert(name);
  }
  int refused = 0;
  for (const std::string& name : names) {
    const ConfigKey* key = find_key(name);
    const std::set<std::string> kinds = kinds_of(name);
    if (key == nullptr || key->status != KeyStatus::kIgnored || kinds.empty() || others.contains(name)) continue;
    for (const auto& [kind, value] : kValues) {
      // A bare word or number is a text here, but no JSON text of a mapping.
      const bool is_json = kinds == std::set<std::string>{"map", "text"};
      const std::string_view form = kind;
      const bool is_text = form != "list" && form != "map" && kinds.contains("text") && !is_json;
      const bool is_number = (form == "flag" || form == "integer") && kinds.contains("number");
      const bool is_itself = kinds.contains(kind) && !(is_json && form != "map");
      const bool is_taken = is_itself || is_text || is_number || (form == "flag" && kinds.contains("integer"));
      CAPTURE(name);
      CAPTURE(std::string(kind));
      CHECK(problem_of(name, value).empty() == is_taken);
      refused += is_taken ? 0 : 1;
    }
  }
  CHECK(refused > 500);
  CHECK(problem_of("gradient_checkpointing_kwargs", "[]") ==
        "[c.yml:6: gradient_checkpointing_kwargs] expected a mapping, got a list of 0; write `name: value` lines below "
        "the key");
  CHECK(problem_of("gradient_checkpointing_kwargs", "'{\"use_reentrant\": false}'").empty());
  CHECK(problem_of("wandb_project", "").empty());
}

TEST_CASE("keys that axolotl refuses are refused") {
  for (const char* key : {"s2_attention", "rope_scaling", "dpo_norm_loss"}) {
    CAPTURE(std::string(key));
    CHECK(problem_of(key, "true").find("dropped it") != std::string::npos);
    CHECK(problem_of(key, "false").empty());
  }
  CHECK(problem_of("push_dataset_to_hub", "me/rows") ==
        "[c.yml:6: push_dataset_to_hub] expected hf_use_auth_token: true beside it, got none; remove the key: nothing "
        "leaves this machine");
  CHECK(problem_of("push_dataset_to_hub", "me/rows\nhf_use_auth_token: true").empty());
}
