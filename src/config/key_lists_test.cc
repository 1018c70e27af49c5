// Every key that axolotl, TRL and transformers declare has a verdict: tests/golden/config_keys/ has their names and
// defaults, as tools/list_config_keys.py reads them, and which of them cannot change what is learned.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "config/keys.h"
#include "config/load.h"
#include "tests/support/small_config.h"

using namespace spillway;
using namespace spillway::config;
using spillway::testing::nested_line;
using spillway::testing::small_config;

namespace {

struct DeclaredKey {
  std::string name, value;  // the default as JSON; empty where there is none
};

// The lines of a list but for comments.
std::vector<std::string> lines_of(std::string_view list) {
  std::ifstream stream(fmt::format("{}/tests/golden/config_keys/{}.txt", SPILLWAY_SOURCE_DIR, list));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);)
    if (!line.starts_with('#')) lines.push_back(line);
  CHECK(lines.size() > 100);
  return lines;
}

std::vector<DeclaredKey> declared_keys(std::string_view program) {
  std::vector<DeclaredKey> keys;
  for (const std::string& line : lines_of(program)) {
    const size_t equals = line.find(" = ");
    keys.push_back({line.substr(0, equals), equals == std::string::npos ? "" : line.substr(equals + 3)});
  }
  return keys;
}

constexpr const char* kPrograms[] = {"axolotl", "trl", "transformers4"};

// Returns true where a dotted path is a key, lies below one, or holds some.
bool is_known(std::string_view path, const ConfigKey* (*find)(std::string_view), bool (*is_group)(std::string_view)) {
  if (is_group(path)) return true;
  while (!path.empty()) {
    if (find(path) != nullptr) return true;
    const size_t dot = path.rfind('.');
    path = path.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
  return false;
}

bool is_known(std::string_view path) {
  for (const std::string_view list : {"datasets.*.", "test_datasets.*.", "pretraining_dataset.*."}) {
    if (path.starts_with(list)) return is_known(path.substr(list.size()), find_dataset_key, is_dataset_key_group);
  }
  return is_known(path, find_key, is_key_group);
}

// Key -> the key beside which alone it acts; empty where it never changes what is learned.
std::map<std::string, std::string> keys_without_effect() {
  std::map<std::string, std::string> keys;
  for (const std::string& line : lines_of("without_effect")) {
    const size_t mark = line.find(" < ");
    keys[line.substr(0, mark)] = mark == std::string::npos ? "" : line.substr(mark + 3);
  }
  return keys;
}

// The verdict on the one key of a config; supported where it has none of its own.
Verdict verdict_on(std::string_view key, std::string_view value) {
  const LoadedConfig loaded = check_config(small_config(nested_line(key, value)), "c.yml", {}, ConfigUse::kTrain);
  for (const KeyVerdict& one : loaded.verdicts.keys())
    if (one.key.starts_with(key)) return one.verdict;
  return Verdict::kSupported;
}

bool stops(Verdict verdict) { return verdict == Verdict::kNotYet || verdict == Verdict::kRefused; }

}  // namespace

TEST_CASE("every key that axolotl, TRL and transformers declare is known") {
  for (const char* program : kPrograms) {
    for (const DeclaredKey& key : declared_keys(program)) {
      CAPTURE(key.name);
      CHECK(is_known(key.name));
    }
  }
}

TEST_CASE("axolotl's keys of fsdp_config are known") {
  std::string config = "fsdp_config:\n";
  for (const DeclaredKey& key : declared_keys("axolotl")) {
    constexpr std::string_view kSection = "fsdp_config.";
    if (key.name.starts_with(kSection)) config += fmt::format("  {}:\n", key.name.substr(kSection.size()));
  }
  CHECK(first_problem(check_config(small_config(config), "c.yml", {}, ConfigUse::kTrain)).empty());
}

TEST_CASE("a key that cannot change what is learned never stops a run, and no other is passed over") {
  const std::map<std::string, std::string> without_effect = keys_without_effect();
  std::set<std::string> names;
  for (const char* program : kPrograms)
    for (const DeclaredKey& key : declared_keys(program)) names.insert(key.name);
  for (const std::string& name : names) {
    CAPTURE(name);
    const ConfigKey* key = find_key(name);
    if (key == nullptr) continue;  // a group of keys, or an entry of one
    if (!without_effect.contains(name)) {
      CHECK(key->status != KeyStatus::kIgnored);
      continue;
    }
    for (const char* value : {"true", "3", "0.5", "auto", "[a]", "{a: b}"}) {
      CAPTURE(std::string(value));
      CHECK_FALSE(stops(verdict_on(name, value)));
    }
  }
  for (const auto& [name, beside] : without_effect) {
    CAPTURE(name);
    CHECK(names.contains(name));
    if (beside.empty()) continue;
    const size_t colon = beside.find(": ");
    CHECK(stops(verdict_on(beside.substr(0, colon), colon == std::string::npos ? "true" : beside.substr(colon + 2))));
  }
}

TEST_CASE("a key with its program's default stops no run") {
  // The small config has some itself, and what a plugin has by default it does where the plugin is named.
  const std::set<std::string> others = {"base_model",           "learning_rate",  "datasets",
                                        "dense_mixer",          "grokfast_alpha", "nemo_gym_enabled",
                                        "spectrum_top_fraction"};
  int with_defaults = 0;
  for (const char* program : kPrograms) {
    for (const DeclaredKey& key : declared_keys(program)) {
      if (key.value.empty() || key.name.find('*') != std::string::npos || others.contains(key.name)) continue;
      CAPTURE(std::string(program));
      CAPTURE(key.name);
      CAPTURE(key.value);
      const Verdict verdict = verdict_on(key.name, key.value);
      CHECK_FALSE((stops(verdict) || verdict == Verdict::kWrong));
      ++with_defaults;
    }
  }
  CHECK(with_defaults > 300);
}

TEST_CASE("arguments of from_pretrained and of accelerate that change what is learned are followed or stop a run") {
  const auto load_more = [](const std::string& more) {
    return check_config(small_config(more), "c.yml", {}, ConfigUse::kTrain);
  };
  CHECK(first_problem(load_more("model_init_kwargs: {attn_implementation: flash_attention_2, dtype: bfloat16}\n"))
            .empty());
  CHECK(load_more("model_kwargs: {revision: abc}\n").config.model.revision == "abc");
  CHECK(first_problem(load_more("model_kwargs: {attention_dropout: 0.1}\n")) ==
        "[c.yml:6: model_kwargs.attention_dropout] expected no value or false, got '0.1'; other arguments of "
        "from_pretrained than those that are known by name not yet supported: write values of config.json into "
        "overrides_of_model_config");
  CHECK(load_more("accelerator_config: {split_batches: true, gradient_accumulation_kwargs: {num_steps: 3}}\n")
            .config.batches.gradient_accumulation_steps == 3);
  CHECK(
      first_problem(load_more("liger_use_token_scaling: true\n")).ends_with("write loss_type: dft, which is the same"));
  CHECK(first_problem(load_more("nonexpert_quantization: nf4\n")).find("not yet supported") != std::string::npos);
  CHECK(first_problem(load_more("overwrite_output_dir: true\npush_to_hub: true\npad_to_multiple_of: 8\n")).empty());
}
