#include "config/settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/home.h"
#include "config/ignored_types.h"
#include "config/nearest_key.h"
#include "config/overridden_keys.h"
#include "config/yaml_scalar.h"

namespace spillway::config {
namespace {

// The two tables have one way of being looked up.
struct KeyTable {
  const ConfigKey* (*find)(std::string_view);
  bool (*is_group)(std::string_view);
  std::vector<std::string_view> (*names)(bool is_followed);
};
constexpr KeyTable kConfigTable{find_key, is_key_group, key_names};
constexpr KeyTable kDatasetTable{find_dataset_key, is_dataset_key_group, dataset_key_names};

[[noreturn]] void fail_unknown(const KeyTable& table, const KeyPlace& place, std::string_view name) {
  std::string_view near = nearest_key(name, table.names(true));
  if (near.empty()) near = nearest_key(name, table.names(false));
  const std::string advice = near.empty() ? "" : fmt::format("did you mean {}? ", near);
  throw input_error(place.text(), "expected a known key, got {}; {}`spillway train --help-config` lists them all",
                    quote(name), advice);
}

// Returns true if two values say the same: 2 and 2.0, yes and true.
bool same_value(const YamlNode& a, const YamlNode& b) {
  if (a == b) return true;
  const auto x = number_of(a), y = number_of(b);
  if (x && y) return *x == *y;
  const auto p = boolean_of(a), q = boolean_of(b);
  return p && q && *p == *q;
}

void add_setting(std::vector<Setting>& settings, Setting setting, Verdicts& verdicts) {
  if (setting.key->name.ends_with('*')) {
    settings.push_back(std::move(setting));
    return;
  }
  const auto same_key = [&](const Setting& other) {
    return other.key == setting.key && other.spelled != setting.spelled;
  };
  const auto other = std::find_if(settings.begin(), settings.end(), same_key);
  if (other == settings.end()) {
    settings.push_back(std::move(setting));
    return;
  }
  if (other->value.is_null()) std::swap(*other, setting);
  if (setting.value.is_null() || same_value(other->value, setting.value)) {
    verdicts.add(setting.spelled, setting.key->name, Verdict::kSupported, fmt::format("another {}", other->spelled));
    return;
  }
  throw input_error(setting.place.text(),
                    "expected one value for {} and {}, which are the same key, got {} and {}; remove one",
                    other->spelled, setting.spelled, other->value.shown(), setting.value.shown());
}

// Returns the mapping that a group of keys holds, which TRL also takes as JSON text. Throws InputError for anything
// else.
YamlNode mapping_of(const YamlNode& value, const KeyPlace& place) {
  if (value.kind == YamlNode::Kind::kScalar && value.text.starts_with('{')) return parse_yaml(value.text, place.text());
  if (value.kind == YamlNode::Kind::kMap) return value;
  throw input_error(place.text(), "expected a mapping, got {}; write `name: value` lines below the key", value.shown());
}

void collect(const KeyTable& table, const YamlNode& map, const KeyPlace& place, const std::string& prefix,
             std::vector<Setting>& settings, Verdicts& verdicts) {
  for (const auto& entry : map.entries) {
    if (verdicts.is_full()) return;
    const std::string name = prefix + entry.key;
    const KeyPlace here = place.at(entry);
    verdicts.attempt(here.path, name, [&] {
      const ConfigKey* row = table.find(name);
      const bool is_group = table.is_group(name) && (row == nullptr || entry.value.kind == YamlNode::Kind::kMap);
      if (row != nullptr && !is_group) {
        add_setting(settings, {row, name, here, entry.value}, verdicts);
      } else if (!is_group) {
        fail_unknown(table, here, name);
      } else if (!is_off(entry.value)) {
        collect(table, mapping_of(entry.value, here), here, name + ".", settings, verdicts);
      }
    });
  }
}

std::vector<Setting> collect_map(const KeyTable& table, const YamlNode& root, const KeyPlace& place,
                                 Verdicts& verdicts) {
  if (root.kind != YamlNode::Kind::kMap && !root.is_null()) {
    throw input_error(place.path.empty() ? std::string(place.file) : place.text(),
                      "expected `key: value` lines, got {}; write a mapping", root.shown());
  }
  std::vector<Setting> settings;
  collect(table, root, place, "", settings, verdicts);
  return settings;
}

// Command line

std::vector<std::string> split_path(const std::string& key) {
  std::vector<std::string> parts(1);
  for (const char c : key) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c == '-' ? '_' : c;
    }
  }
  return parts;
}

std::string join_path(std::span<const std::string> parts) { return fmt::format("{}", fmt::join(parts, ".")); }

std::optional<size_t> index_of(const std::string& part) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  if (error != std::errc() || end != part.data() + part.size()) return {};
  return index;
}

// The child of a list or mapping that one part of a dotted key names, made where it is missing.
YamlNode& child_of(YamlNode& node, const std::string& part, const KeyPlace& place) {
  const auto index = index_of(part);
  if (node.is_null()) node.kind = index ? YamlNode::Kind::kList : YamlNode::Kind::kMap;
  if (node.kind == YamlNode::Kind::kList) {
    if (!index || *index > node.items.size()) {
      throw input_error(place.text(), "expected an index from 0 to {}, got {}; change it", node.items.size(),
                        quote(part));
    }
    if (*index == node.items.size()) node.items.emplace_back();
    return node.items[*index];
  }
  if (node.kind != YamlNode::Kind::kMap) {
    throw input_error(place.text(), "expected a list or a mapping above {}, got {}; shorten the key", quote(part),
                      node.shown());
  }
  YamlNode* found = node.find(part);
  if (found == nullptr) found = &node.entries.emplace_back(YamlNode::Entry{part, 0, {}}).value;
  return *found;
}

// Other spellings of a dataset's key give way to the one on the command line.
void drop_other_spellings(YamlNode& entry, std::string_view name) {
  const ConfigKey* row = find_dataset_key(name);
  if (row == nullptr) return;
  std::erase_if(entry.entries,
                [&](const auto& other) { return other.key != name && find_dataset_key(other.key) == row; });
}

// Lists and mappings are written as YAML, everything else stands for itself.
YamlNode override_value(const std::string& text, const KeyPlace& place) {
  if (text.empty() || text == "null" || text == "~") return {};
  if (text.front() == '"') {  // a text in quotes, as JSON has it
    const auto quoted = nlohmann::json::parse(text, nullptr, false);
    return quoted.is_string() ? YamlNode::scalar(quoted.get<std::string>(), true) : YamlNode::scalar(text);
  }
  if (text.front() != '[' && text.front() != '{') return YamlNode::scalar(text);
  try {
    return parse_yaml(text, place.text());
  } catch (const InputError&) {
    return YamlNode::scalar(text);  // a template or a pattern that merely begins like a list
  }
}

void apply_override(std::vector<Setting>& settings, const ConfigOverride& change) {
  const std::vector<std::string> parts = split_path(change.key);
  const std::span<const std::string> all(parts);
  const KeyPlace place{"", 0, join_path(all)};
  // The longest beginning that is a key; what follows leads into its value.
  size_t taken = parts.size();
  while (taken > 0 && find_key(join_path(all.first(taken))) == nullptr) --taken;
  if (taken == 0) fail_unknown(kConfigTable, place, place.path);
  const std::string spelled = join_path(all.first(taken));
  const ConfigKey* row = find_key(spelled);

  auto setting = std::find_if(settings.begin(), settings.end(), [&](const Setting& other) {
    return other.key == row && (other.spelled == spelled || !row->name.ends_with('*'));
  });
  if (setting == settings.end()) setting = settings.insert(settings.end(), Setting{row, spelled, {"", 0, spelled}, {}});
  setting->spelled = spelled;
  YamlNode* node = &setting->value;
  for (size_t i = taken; i < parts.size(); ++i) {
    if (node->kind == YamlNode::Kind::kMap && row->type == &kValueType<std::vector<SpelledDataset>>)
      drop_other_spellings(*node, parts[i]);
    node = &child_of(*node, parts[i], place);
  }
  *node = override_value(change.value, place);
  if (taken == parts.size()) setting->place = place;
}

// Returns the overrides with a group of keys, `--memory '{device: 8GiB}'`, as one of each key in it.
std::vector<ConfigOverride> ungrouped(std::span<const ConfigOverride> overrides) {
  std::vector<ConfigOverride> all;
  for (const ConfigOverride& one : overrides) {
    const std::string name = join_path(split_path(one.key));
    const YamlNode value = override_value(one.value, {"", 0, name});
    if (!is_key_group(name) || value.kind != YamlNode::Kind::kMap) {
      all.push_back(one);
      continue;
    }
    for (const auto& entry : value.entries) {
      const bool is_text = entry.value.kind == YamlNode::Kind::kScalar;
      all.push_back({fmt::format("{}.{}", name, entry.key), entry.value.is_null() ? ""
                                                            : is_text             ? entry.value.text
                                                                                  : json_of(entry.value).dump()});
    }
  }
  return all;
}

// Reading

// Returns true if a value that is not off is what happens anyway.
bool is_harmless(const ConfigKey& row, const YamlNode& value) {
  if (is_off(value)) return true;
  if (value.kind == YamlNode::Kind::kList) {
    return std::all_of(value.items.begin(), value.items.end(),
                       [&](const YamlNode& item) { return is_harmless(row, item); });
  }
  return std::any_of(row.harmless.begin(), row.harmless.end(),
                     [&](std::string_view known) { return same_value(value, YamlNode::scalar(std::string(known))); });
}

// `- path: FILE` entries, each with its own owner.
void read_entries(const YamlNode& node, const KeyPlace& place, std::vector<SpelledDataset>& value, Verdicts& verdicts,
                  bool takes_path = false) {
  if (takes_path && node.kind == YamlNode::Kind::kScalar) {
    value.assign(1, {});
    return read_value(node, place, {}, value.front().config.path);
  }
  if (node.kind != YamlNode::Kind::kList) {
    throw input_error(place.text(), "expected a list, got {}; write `- path: FILE` lines", node.shown());
  }
  value.clear();
  for (size_t i = 0; i < node.items.size() && !verdicts.is_full(); ++i) {
    const YamlNode& item = node.items[i];
    const KeyPlace here = place.at(i);
    SpelledDataset& dataset = value.emplace_back();
    verdicts.attempt(here.path, here.path, [&] {
      if (item.kind != YamlNode::Kind::kMap) {
        throw input_error(here.text(), "expected a mapping with a path, got {}; write `- path: FILE`", item.shown());
      }
      read_settings(collect_map(kDatasetTable, item, here, verdicts), &dataset, verdicts);
    });
  }
}

// A path or a list of them, as a shell would have written it.
YamlNode with_home(YamlNode value) {
  value.text = expand_home(std::move(value.text));
  for (YamlNode& item : value.items) item.text = expand_home(std::move(item.text));
  return value;
}

void read_supported(const Setting& setting, void* owner, Verdicts& verdicts) {
  const auto& [row, spelled, place, said] = setting;
  const YamlNode value = row->is_path ? with_home(said) : said;
  if (!value.is_null() || row->takes_null) {
    if (auto* datasets = row->datasets(owner)) return read_entries(value, place, *datasets, verdicts, row->takes_path);
    row->read(value, place, owner);
  }
  if (spelled == row->name) return verdicts.add(place.path, row->name, Verdict::kSupported);
  // A key of another program's section has its verdict there.
  if (std::find(row->aliases.begin(), row->aliases.end(), spelled) == row->aliases.end()) return;
  verdicts.add(place.path, row->name, Verdict::kSupported, fmt::format("is {}", row->name));
}

std::string with_colon(std::string_view advice) { return advice.empty() ? "" : fmt::format(": {}", advice); }

void read_setting(const Setting& setting, void* owner, Verdicts& verdicts) {
  const auto& [row, spelled, place, value] = setting;
  switch (row->status) {
    case KeyStatus::kSupported:
      return read_supported(setting, owner, verdicts);
    case KeyStatus::kIgnored:
      if (const bool is_off_word = value.kind == YamlNode::Kind::kScalar && is_off(value);
          !value.is_null() && !is_off_word)
        check_ignored_value(spelled, value, place);
      return verdicts.add(place.path, row->name, Verdict::kIgnored, row->meaning);
    case KeyStatus::kNotYet:
      if (is_off(value)) {
        return verdicts.add(place.path, row->name, Verdict::kOff, fmt::format("{} not yet supported", row->meaning));
      }
      if (is_harmless(*row, value)) {
        return verdicts.add(place.path, row->name, Verdict::kSupported, "what happens anyway");
      }
      throw NotYetError(fmt::format("[{}] expected no value or false, got {}; {} not yet supported{}", place.text(),
                                    value.shown(), row->meaning, with_colon(row->advice)));
    case KeyStatus::kRefused:
      if (is_harmless(*row, value)) return verdicts.add(place.path, row->name, Verdict::kOff, row->meaning);
      throw RefusedError(fmt::format("[{}] expected no value or false, got {}; {}{}", place.text(), value.shown(),
                                     row->meaning, with_colon(row->advice)));
  }
}

}  // namespace

bool is_off(const YamlNode& value) {
  switch (value.kind) {
    case YamlNode::Kind::kNull:
      return true;
    case YamlNode::Kind::kMap:
      return value.entries.empty();
    case YamlNode::Kind::kList:
      return value.items.empty();
    case YamlNode::Kind::kScalar:
      break;
  }
  return value.text.empty() || value.text == "none" || boolean_of(value) == false;
}

std::vector<Setting> collect_settings(const YamlNode& root, const KeyPlace& place, Verdicts& verdicts) {
  return collect_map(kConfigTable, root, place, verdicts);
}

void apply_overrides(std::vector<Setting>& settings, std::span<const ConfigOverride> overrides, Verdicts& verdicts) {
  // Two spellings on one command line must agree, as in a file; the same spelling twice means the last.
  std::vector<Setting> said;
  for (const ConfigOverride& one : ungrouped(overrides)) {
    const std::string name = join_path(split_path(one.key));
    verdicts.attempt(name, name, [&] {
      if (const ConfigKey* row = find_key(name)) {
        std::erase_if(said, [&](const Setting& other) { return other.spelled == name; });
        add_setting(said, {row, name, KeyPlace{"", 0, name}, override_value(one.value, {})}, verdicts);
      }
      apply_override(settings, one);
    });
  }
  drop_overridden(settings, said);
}

void read_settings(std::span<const Setting> settings, void* owner, Verdicts& verdicts) {
  for (const Setting& setting : settings) {
    if (verdicts.is_full()) return;
    verdicts.attempt(setting.place.path, setting.key->name, [&] { read_setting(setting, owner, verdicts); });
  }
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::vector<SpelledDataset>& value) {
  Verdicts verdicts;
  read_entries(node, place, value, verdicts);
  if (const std::string problem = verdicts.first_problem(); !problem.empty()) throw InputError(problem);
}

}  // namespace spillway::config
