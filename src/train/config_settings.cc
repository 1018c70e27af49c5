#include "train/config_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace spillway::train {
namespace {

// The two tables have one way of being looked up.
struct KeyTable {
  const ConfigKey* (*find)(std::string_view);
  std::vector<std::string_view> (*names)();
};
constexpr KeyTable kConfigTable{find_key, key_names};
constexpr KeyTable kDatasetTable{find_dataset_key, dataset_key_names};

// `memory` of `memory.device`: what holds keys and is none itself.
std::set<std::string_view> group_names(const KeyTable& table) {
  std::set<std::string_view> groups;
  for (const std::string_view name : table.names()) {
    if (const size_t dot = name.find('.'); dot != std::string_view::npos) groups.insert(name.substr(0, dot));
  }
  return groups;
}

[[noreturn]] void fail_unknown(const KeyTable& table, const KeyPlace& place, std::string_view name) {
  std::vector<std::string_view> names = table.names();
  for (const std::string_view group : group_names(table)) names.push_back(group);
  const std::string_view near = nearest_name(name, names);
  const std::string advice = near.empty() ? "" : fmt::format("did you mean {}? ", near);
  throw input_error(place.text(), "expected a known key, got {}; {}`spillway train --help-config` lists them all",
                    quote(name), advice);
}

// Whether two values say the same: 2 and 2.0, yes and true.
bool same_value(const YamlNode& a, const YamlNode& b) {
  if (a == b) return true;
  const auto x = number_of(a), y = number_of(b);
  if (x && y) return *x == *y;
  const auto p = boolean_of(a), q = boolean_of(b);
  return p && q && *p == *q;
}

void add_setting(std::vector<Setting>& settings, Setting setting) {
  if (setting.key->name.ends_with('*')) {
    settings.push_back(std::move(setting));
    return;
  }
  const auto same_key = [&](const Setting& other) {
    return other.key == setting.key && other.spelled != setting.spelled && other.key->binding.read;
  };
  const auto other = std::find_if(settings.begin(), settings.end(), same_key);
  if (other == settings.end()) {
    settings.push_back(std::move(setting));
    return;
  }
  if (setting.value.is_null() || same_value(other->value, setting.value)) return;
  if (other->value.is_null()) {
    *other = std::move(setting);
    return;
  }
  throw input_error(setting.place.text(),
                    "expected one value for {} and {}, which are the same key, got {} and {}; remove one",
                    other->spelled, setting.spelled, other->value.shown(), setting.value.shown());
}

void collect(const KeyTable& table, const std::set<std::string_view>& groups, const YamlNode& map,
             const KeyPlace& place, const std::string& prefix, std::vector<Setting>& settings) {
  for (const auto& entry : map.entries) {
    const std::string name = prefix + entry.key;
    const KeyPlace here = place.at(entry);
    if (const ConfigKey* row = table.find(name)) {
      add_setting(settings, {row, name, here, entry.value});
    } else if (groups.count(name) == 0) {
      fail_unknown(table, here, name);
    } else if (entry.value.kind == YamlNode::Kind::kMap) {
      collect(table, groups, entry.value, here, name + ".", settings);
    } else if (!entry.value.is_null()) {
      throw input_error(here.text(), "expected a mapping, got {}; write `name: value` lines below the key",
                        entry.value.shown());
    }
  }
}

std::vector<Setting> collect_map(const KeyTable& table, const YamlNode& root, const KeyPlace& place) {
  if (root.kind != YamlNode::Kind::kMap && !root.is_null()) {
    throw input_error(place.path.empty() ? std::string(place.file) : place.text(),
                      "expected `key: value` lines, got {}; write a mapping", root.shown());
  }
  std::vector<Setting> settings;
  collect(table, group_names(table), root, place, "", settings);
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
    return other.key == row && (other.spelled == spelled || row->binding.read);
  });
  if (setting == settings.end()) setting = settings.insert(settings.end(), Setting{row, spelled, place, {}});
  setting->spelled = spelled;
  YamlNode* node = &setting->value;
  for (size_t i = taken; i < parts.size(); ++i) {
    if (node->kind == YamlNode::Kind::kMap && row->name.ends_with("datasets")) drop_other_spellings(*node, parts[i]);
    node = &child_of(*node, parts[i], place);
  }
  *node = override_value(change.value, place);
  if (taken == parts.size()) setting->place = place;
}

// Reading

bool is_harmless(const ConfigKey& row, const YamlNode& value) {
  switch (value.kind) {
    case YamlNode::Kind::kNull:
      return true;
    case YamlNode::Kind::kMap:
      return value.entries.empty();
    case YamlNode::Kind::kList:
      return std::all_of(value.items.begin(), value.items.end(),
                         [&](const YamlNode& item) { return is_harmless(row, item); });
    case YamlNode::Kind::kScalar:
      break;
  }
  if (value.text.empty() || value.text == "none" || boolean_of(value) == false) return true;
  return std::any_of(row.harmless.begin(), row.harmless.end(),
                     [&](std::string_view known) { return same_value(value, YamlNode::scalar(std::string(known))); });
}

}  // namespace

std::vector<Setting> collect_settings(const YamlNode& root, const KeyPlace& place) {
  return collect_map(kConfigTable, root, place);
}

std::vector<Setting> collect_dataset_settings(const YamlNode& entry, const KeyPlace& place) {
  return collect_map(kDatasetTable, entry, place);
}

void apply_overrides(std::vector<Setting>& settings, std::span<const ConfigOverride> overrides) {
  // Two spellings on one command line must agree, as in a file; the same spelling twice means the last.
  std::vector<Setting> said;
  for (const ConfigOverride& one : overrides) {
    const std::string name = join_path(split_path(one.key));
    const ConfigKey* row = find_key(name);
    if (row == nullptr) continue;
    std::erase_if(said, [&](const Setting& other) { return other.spelled == name; });
    add_setting(said, {row, name, KeyPlace{"", 0, name}, override_value(one.value, {})});
  }
  for (const ConfigOverride& one : overrides) apply_override(settings, one);
}

std::vector<std::string> read_settings(std::span<const Setting> settings, void* owner) {
  std::vector<std::string> ignored;
  for (const auto& [row, spelled, place, value] : settings) {
    switch (row->status) {
      case KeyStatus::kSupported:
        if (!value.is_null() || row->takes_null) row->binding.read(value, place, row->range, owner);
        break;
      case KeyStatus::kIgnored:
        ignored.push_back(spelled);
        break;
      case KeyStatus::kNotYet:
        if (is_harmless(*row, value)) break;
        throw input_error(place.text(), "expected no value or false, got {}; {} not yet supported: remove the key",
                          value.shown(), row->meaning);
      case KeyStatus::kRefused:
        if (is_harmless(*row, value)) break;
        throw input_error(place.text(), "expected no value or false, got {}; {}: remove the key", value.shown(),
                          row->meaning);
    }
  }
  return ignored;
}

void read_value(const YamlNode& node, const KeyPlace& place, const Range&, std::vector<DatasetConfig>& value) {
  if (node.kind != YamlNode::Kind::kList) {
    throw input_error(place.text(), "expected a list, got {}; write `- path: FILE` lines", node.shown());
  }
  value.clear();
  for (size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = node.items[i];
    const KeyPlace here = place.at(i);
    if (item.kind != YamlNode::Kind::kMap) {
      throw input_error(here.text(), "expected a mapping with a path, got {}; write `- path: FILE`", item.shown());
    }
    DatasetConfig dataset;
    const auto settings = collect_dataset_settings(item, here);
    read_settings(settings, &dataset);
    value.push_back(std::move(dataset));
  }
}

}  // namespace spillway::train
