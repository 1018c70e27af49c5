#include "config/keys.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "config/unsupported_keys.h"

namespace spillway::config {
namespace {

// Spelling -> row, and the rows whose name ends in `*`.
struct KeyIndex {
  std::unordered_map<std::string_view, const ConfigKey*> rows;
  std::vector<const ConfigKey*> patterns;
  std::set<std::string_view> groups;
  std::vector<std::string_view> followed, others;  // their names

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
    (row.status == KeyStatus::kSupported ? followed : others).push_back(name);
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

}  // namespace

std::span<const KeySection> config_sections() {
  static const std::vector<KeySection> kSections = [] {
    std::vector<KeySection> all;
    for (auto part : {model_sections(), data_sections(), training_sections(), memory_sections(), preference_sections(),
                      online_sections(), reward_sections(), video_sections()}) {
      std::move(part.begin(), part.end(), std::back_inserter(all));
    }
    for (KeySection& section : all) add_unsupported(section);
    for (const KeySection& section : unsupported_sections()) {
      const auto has_title = [&](const KeySection& other) { return other.title == section.title; };
      const bool is_there = section.title == kDatasetSection || std::any_of(all.begin(), all.end(), has_title);
      if (!is_there) all.push_back(section);
    }
    return all;
  }();
  return kSections;
}

const ConfigKey* find_key(std::string_view name) { return config_index().find(name); }
const ConfigKey* find_dataset_key(std::string_view name) { return dataset_index().find(name); }

namespace {

// Empty for what is no key that is followed.
std::string type_of_key(std::string_view name) {
  const ConfigKey* row = find_key(name);
  if (row == nullptr || row->status != KeyStatus::kSupported) return "";
  static const Spelled kDefaults;
  return row->binding.type(&kDefaults);
}

}  // namespace

bool is_switch(std::string_view name) {
  const ConfigKey* row = find_key(name);
  if (row == nullptr) return false;
  // What a key that is not followed may say, its verdict looks at.
  return row->status != KeyStatus::kSupported || type_of_key(name).find("true") != std::string::npos;
}

bool takes_words(std::string_view name) {
  const std::string type = type_of_key(name);
  return type.starts_with("list") && type != "list of mappings";
}

bool is_key_group(std::string_view name) { return config_index().groups.count(name) > 0; }
bool is_dataset_key_group(std::string_view name) { return dataset_index().groups.count(name) > 0; }
std::vector<std::string_view> key_names(bool is_followed) {
  return is_followed ? config_index().followed : config_index().others;
}
std::vector<std::string_view> dataset_key_names(bool is_followed) {
  return is_followed ? dataset_index().followed : dataset_index().others;
}

}  // namespace spillway::config
