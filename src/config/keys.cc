#include "config/keys.h"

#include <set>
#include <unordered_map>

namespace spillway::config {
namespace {

// Spelling -> row, and the rows whose name ends in `*`.
struct KeyIndex {
  std::unordered_map<std::string_view, const ConfigKey*> rows;
  std::vector<const ConfigKey*> patterns;
  std::set<std::string_view> groups;
  std::vector<std::string_view> names;

  void add(const KeySection& section) {
    for (const ConfigKey& row : section.keys) {
      if (row.name.ends_with('*')) {
        patterns.push_back(&row);
        add_groups(row.name);
        continue;
      }
      add_name(row.name, row);
      for (const std::string_view alias : row.aliases) add_name(alias, row);
    }
  }

  void add_name(std::string_view name, const ConfigKey& row) {
    const bool is_new = rows.emplace(name, &row).second;
    SPILLWAY_CHECK(is_new, "the config key {} stands twice in the table", name);
    names.push_back(name);
    add_groups(name);
  }

  void add_groups(std::string_view name) {
    for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
      groups.insert(name.substr(0, dot));
    }
  }

  [[nodiscard]] const ConfigKey* find(std::string_view name) const {
    if (const auto found = rows.find(name); found != rows.end()) return found->second;
    for (const ConfigKey* row : patterns) {
      if (name.starts_with(row->name.substr(0, row->name.size() - 1))) return row;
    }
    return nullptr;
  }
};

const KeyIndex& config_index() {
  static const KeyIndex kIndex = [] {
    KeyIndex index;
    for (const KeySection& section : config_sections()) index.add(section);
    return index;
  }();
  return kIndex;
}

const KeyIndex& dataset_index() {
  static const KeyIndex kIndex = [] {
    KeyIndex index;
    index.add(dataset_section());
    return index;
  }();
  return kIndex;
}

void add_rows(KeySection& section, KeyStatus status, std::string_view meaning,
              std::initializer_list<std::string_view> names, std::string_view advice) {
  for (const std::string_view name : names) {
    section.keys.push_back({.name = name, .status = status, .meaning = meaning, .advice = advice});
  }
}

}  // namespace

void add_ignored(KeySection& section, std::string_view why, std::initializer_list<std::string_view> names) {
  add_rows(section, KeyStatus::kIgnored, why, names, "");
}
void add_not_yet(KeySection& section, std::string_view what, std::initializer_list<std::string_view> names,
                 std::string_view advice) {
  add_rows(section, KeyStatus::kNotYet, what, names, advice);
}
void add_refused(KeySection& section, std::string_view why, std::initializer_list<std::string_view> names,
                 std::string_view advice) {
  add_rows(section, KeyStatus::kRefused, why, names, advice);
}

std::span<const KeySection> config_sections() {
  static const std::vector<KeySection> kSections = [] {
    std::vector<KeySection> all;
    for (auto part : {model_sections(), data_sections(), training_sections(), memory_sections(), preference_sections(),
                      other_sections()}) {
      std::move(part.begin(), part.end(), std::back_inserter(all));
    }
    return all;
  }();
  return kSections;
}

const ConfigKey* find_key(std::string_view name) { return config_index().find(name); }
const ConfigKey* find_dataset_key(std::string_view name) { return dataset_index().find(name); }
bool is_key_group(std::string_view name) { return config_index().groups.count(name) > 0; }
bool is_dataset_key_group(std::string_view name) { return dataset_index().groups.count(name) > 0; }
std::vector<std::string_view> key_names() { return config_index().names; }
std::vector<std::string_view> dataset_key_names() { return dataset_index().names; }

}  // namespace spillway::config
