#include "config/load.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "config/deepspeed.h"
#include "config/foreign_section.h"
#include "config/fsdp.h"
#include "config/other_trainers.h"
#include "config/parallelism.h"
#include "config/resolve.h"
#include "config/settings.h"
#include "config/yaml.h"
#include "config/yaml_scalar.h"
#include "io/file.h"

namespace spillway::config {
namespace {

constexpr int64_t kLargestConfig = kMiB;

std::string read_standard_input() {
  std::string text;
  std::array<char, 65536> part;
  while (true) {
    const ssize_t got = read(STDIN_FILENO, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw machine_error("-", "expected to read standard input, got {}; give a file", std::strerror(errno));
    if (got == 0) return text;
    text.append(part.data(), static_cast<size_t>(got));
    if (text.size() > static_cast<size_t>(kLargestConfig)) return text;  // the YAML reader says that it is too long
  }
}

// Rows can be made for objectives that cannot be trained for yet: their keys are read or passed over, and taken out.
void read_for_rows(std::vector<Setting>& settings, LoadedConfig& loaded) {
  std::erase_if(settings, [&](const Setting& setting) {
    const ConfigKey& row = *setting.key;
    if (row.status != KeyStatus::kNotYet || !row.spares_rows) return false;
    loaded.verdicts.attempt(setting.place.path, row.name, [&] {
      if (row.type != nullptr && !setting.value.is_null()) row.read(setting.value, setting.place, &loaded.keys);
      loaded.verdicts.add(setting.place.path, row.name, row.type != nullptr ? Verdict::kSupported : Verdict::kIgnored,
                          "rows do not depend on it");
    });
    return true;
  });
}

// Functions can be tried with any config that has them, whatever else is in it.
void keep_for_rewards(std::vector<Setting>& settings) {
  constexpr std::string_view kTokenizerKeys[] = {
      "base_model",          "tokenizer_config", "eos_token", "pad_token", "resize_token_embeddings_to_32x",
      "chat_template_kwargs"};
  std::erase_if(settings, [&](const Setting& setting) {
    const std::string_view name = setting.key->name;
    return !name.starts_with("trl.reward_") && !name.starts_with("special_tokens") &&
           std::find(std::begin(kTokenizerKeys), std::end(kTokenizerKeys), name) == std::end(kTokenizerKeys);
  });
}

// All keys, as the file and the command line say them. A path need not be UTF-8.
std::string said_keys(std::span<const Setting> settings) {
  nlohmann::ordered_json said = nlohmann::ordered_json::object();
  for (const Setting& setting : settings) {
    nlohmann::ordered_json* place = &said;
    std::istringstream parts(setting.spelled);
    for (std::string part; std::getline(parts, part, '.');) {
      if (!place->is_object()) *place = nlohmann::ordered_json::object();
      place = &(*place)[part];
    }
    *place = json_of(setting.value);
  }
  return said.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Axolotl asks who may push before it looks at anything else.
void check_push(std::span<const Setting> settings) {
  const Setting* push = find_setting(settings, "push_dataset_to_hub");
  const Setting* token = find_setting(settings, "hf_use_auth_token");
  if (push == nullptr || is_off(push->value)) return;
  if (token != nullptr && boolean_of(token->value) == true) return;
  throw input_error(push->place.text(),
                    "expected hf_use_auth_token: true beside it, got {}; remove the key: nothing leaves this machine",
                    token == nullptr ? "none" : token->value.shown());
}

// The place of a key with dots in nested mappings, which are made where they are missing.
YamlNode* value_at(YamlNode& root, std::string_view name) {
  YamlNode* node = &root;
  for (;;) {
    const size_t dot = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, dot);
    node->kind = YamlNode::Kind::kMap;
    YamlNode* found = node->find(part);
    node = found != nullptr ? found : &node->entries.emplace_back(YamlNode::Entry{std::string(part), 0, {}}).value;
    if (dot == name.size()) return node;
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

LoadedConfig check_config(std::string_view text, std::string_view name, std::span<const ConfigOverride> overrides,
                          ConfigUse use, int64_t ranks) {
  refuse_script(text, name);
  const YamlNode root = parse_yaml(text, name);
  LoadedConfig loaded{
      .source = {std::string(text), std::string(name), {overrides.begin(), overrides.end()}, use, ranks}};
  const KeyPlace top{std::string(name), 0, ""};
  loaded.other_trainer = recognise_trainer(root, top, loaded.verdicts);
  if (!loaded.other_trainer.empty()) return loaded;
  std::vector<Setting> settings = collect_settings(root, top, loaded.verdicts);
  apply_overrides(settings, overrides, loaded.verdicts);
  if (use == ConfigUse::kRewards) keep_for_rewards(settings);
  const std::string said = said_keys(settings);
  Verdicts sections;
  // First, since it says how many ranks share a sequence, and so how many train_batch_size is divided by.
  sections.attempt("parallelism_config", "parallelism_config", [&] { merge_parallelism(settings, loaded, sections); });
  sections.attempt("deepspeed", "deepspeed", [&] { merge_deepspeed(settings, loaded, sections); });
  sections.attempt("fsdp_config", "fsdp_config", [&] { merge_fsdp(settings, loaded, sections); });
  sections.attempt("push_dataset_to_hub", "push_dataset_to_hub", [&] { check_push(settings); });
  if (use == ConfigUse::kPreprocess) read_for_rows(settings, loaded);
  read_settings(settings, &loaded.keys, loaded.verdicts);
  loaded.verdicts.append(std::move(sections));
  for (const Setting& setting : settings) {
    if (setting.value.is_null()) {
      loaded.emptied.emplace(setting.key->name, setting.place.text());
      continue;
    }
    loaded.given.emplace(setting.key->name, setting.place.text());
    if (find_key(setting.spelled) == setting.key) loaded.spelled.emplace(setting.key->name, setting.spelled);
  }
  // A value that could not be read would make a conflict out of nothing.
  if (!loaded.verdicts.has(Verdict::kWrong)) {
    try {
      if (use != ConfigUse::kRewards) take_defaults(loaded);
      loaded.config = resolve(loaded, use);
      if (loaded.config.online) loaded.config.online->said = said;
    } catch (const InputError& error) {
      loaded.conflict = error.what();
    }
  }
  loaded.ignored = loaded.verdicts.spelled(Verdict::kIgnored);
  return loaded;
}

LoadedConfig check_config_file(const std::string& path, std::span<const ConfigOverride> overrides, ConfigUse use,
                               int64_t ranks) {
  if (path.empty()) return check_config("", "the command line", overrides, use, ranks);
  if (path == "-") return check_config(read_standard_input(), "standard input", overrides, use, ranks);
  constexpr int64_t kLargestScript = 256 * kMiB;  // a notebook holds what it has printed
  const bool is_script = path.ends_with(".ipynb") || path.ends_with(".py");
  return check_config(read_file(path, is_script ? kLargestScript : kLargestConfig), path, overrides, use, ranks);
}

std::string first_problem(const LoadedConfig& loaded) {
  if (!loaded.other_trainer.empty()) return loaded.other_trainer;
  const std::string problem = loaded.verdicts.first_problem();
  return problem.empty() ? loaded.conflict : problem;
}

LoadedConfig load_config(std::string_view text, std::string_view name, std::span<const ConfigOverride> overrides,
                         ConfigUse use, int64_t ranks) {
  LoadedConfig loaded = check_config(text, name, overrides, use, ranks);
  if (const std::string problem = first_problem(loaded); !problem.empty()) throw InputError(problem);
  return loaded;
}

LoadedConfig load_config_file(const std::string& path, std::span<const ConfigOverride> overrides, ConfigUse use,
                              int64_t ranks) {
  LoadedConfig loaded = check_config_file(path, overrides, use, ranks);
  if (const std::string problem = first_problem(loaded); !problem.empty()) throw InputError(problem);
  return loaded;
}

std::string written_config(const ConfigSource& source) {
  (void)load_config(source.text, source.name, source.overrides, source.use, source.ranks);
  Verdicts verdicts;
  std::vector<Setting> settings =
      collect_settings(parse_yaml(source.text, source.name), KeyPlace{source.name, 0, ""}, verdicts);
  apply_overrides(settings, source.overrides, verdicts);
  YamlNode root{.kind = YamlNode::Kind::kMap};
  for (const Setting& setting : settings) *value_at(root, setting.spelled) = setting.value;
  return print_yaml(root);
}

LoadedConfig load_changed(const ConfigSource& source, std::span<const ConfigOverride> changes) {
  std::vector<ConfigOverride> overrides = source.overrides;
  overrides.insert(overrides.end(), changes.begin(), changes.end());
  return load_config(source.text, source.name, overrides, source.use, source.ranks);
}

void hide_secrets(LoadedConfig& loaded) {
  constexpr std::string_view kWord = "hf_hidden";  // a token by its form, so that the source can be read again
  const std::string& token = loaded.keys.hub_token;
  if (token.empty()) return;
  const auto hide = [&](std::string& text) {
    for (size_t at = text.find(token); at != std::string::npos; at = text.find(token, at + kWord.size()))
      text.replace(at, token.size(), kWord);
  };
  hide(loaded.source.text);
  for (ConfigOverride& one : loaded.source.overrides) hide(one.value);
}

std::string ignored_line(const LoadedConfig& loaded) {
  // Keys of one reason stand together, in the order of their first.
  std::vector<std::pair<std::string_view, std::string>> groups;
  for (const KeyVerdict& key : loaded.verdicts.keys()) {
    if (key.verdict != Verdict::kIgnored) continue;
    const auto same =
        std::find_if(groups.begin(), groups.end(), [&](const auto& one) { return one.first == key.note; });
    if (same == groups.end()) {
      groups.emplace_back(key.note, key.key);
    } else {
      same->second += ", " + key.key;
    }
  }
  std::string line;
  for (const auto& [why, keys] : groups) {
    line +=
        fmt::format("{}{}{}", line.empty() ? "ignored: " : "; ", keys, why.empty() ? "" : fmt::format(" ({})", why));
  }
  return line;
}

}  // namespace spillway::config
