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
      for (const std::string& alias : row.aliases) add_name(alias, row);
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

// Returns the row of a member: declared<Spelled, &Spelled::memory_device>("memory.device", "budget of ...").
template <typename Owner, auto... Path>
ConfigKey declared(std::string_view name, std::string_view meaning) {
  using Member = std::remove_reference_t<decltype((std::declval<Owner&>().*....*Path))>;
  return {.name = name, .meaning = meaning, .type = &kValueType<Member>, .member = [](void* owner) -> void* {
            return &(*static_cast<Owner*>(owner).*....*Path);
          }};
}

#include "config/keys/table_begin.inc"
std::vector<KeySection> declared_sections() {
  using namespace read_by;
  using Keys = Spelled;
  std::vector<KeySection> all;
  bool is_compared = true;
  const auto begin = [&](std::string_view title, bool compared = true) {
    all.push_back({title, {}});
    is_compared = compared;
  };
  const auto add = [&](ConfigKey key) {
    key.is_compared = key.is_compared && is_compared;
    all.back().keys.push_back(std::move(key));
  };
  constexpr bool kNotCompared = false;
  begin("Model", kNotCompared);
#include "config/keys/model.def"
  begin("Adapter");
#include "config/keys/adapter.def"
  begin("Quantised base");
#include "config/keys/quantised_base.def"
  begin("Quantisation-aware training");
#include "config/keys/qat.def"
  begin("Data");
#include "config/keys/data.def"
  begin("Length and batches");
#include "config/keys/batches.def"
  begin("Optimisation");
#include "config/keys/optimisation.def"
  begin("Output, checkpoints and evaluation", kNotCompared);
#include "config/keys/output.def"
  begin("Device and memory", kNotCompared);
#include "config/keys/memory.def"
  begin("Several ranks", kNotCompared);
#include "config/keys/ranks.def"
  begin("Distillation");
#include "config/keys/distillation.def"
  begin("Preferences");
#include "config/keys/preferences.def"
  begin("Generated completions");
#include "config/keys/completions.def"
  begin("Reinforcement learning");
#include "config/keys/reinforcement.def"
  begin("PPO");
#include "config/keys/ppo.def"
  begin("Rewards");
#include "config/keys/rewards.def"
  begin("Video");
#include "config/keys/video.def"
  begin("FastVideo's words for other keys", kNotCompared);
#include "config/keys/fastvideo.def"
  return all;
}

KeySection declared_dataset_section() {
  using Keys = SpelledDataset;
  KeySection section{kDatasetSection, {}};
  const auto add = [&](ConfigKey key) { section.keys.push_back(std::move(key)); };
#include "config/keys/datasets.def"
  return section;
}
#include "config/keys/end.inc"

}  // namespace

const KeySection& dataset_section() {
  static const KeySection kSection = [] {
    KeySection section = declared_dataset_section();
    add_unsupported(section);
    return section;
  }();
  return kSection;
}

std::span<const KeySection> config_sections() {
  static const std::vector<KeySection> kSections = [] {
    std::vector<KeySection> all = declared_sections();
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
  return row->type->name();
}

}  // namespace

bool is_switch(std::string_view name) {
  const ConfigKey* row = find_key(name);
  if (row == nullptr) return false;
  // The verdict on a key that is not followed looks at what it may say.
  return row->status != KeyStatus::kSupported || type_of_key(name).find("true") != std::string::npos;
}

bool takes_words(std::string_view name) {
  const std::string type = type_of_key(name);
  return type.starts_with("list") && type != "list of mappings";
}

std::map<std::string, std::string> compared_values(std::string_view section, uint32_t objectives, const Spelled& keys) {
  const auto sections = config_sections();
  const auto it =
      std::find_if(sections.begin(), sections.end(), [&](const KeySection& one) { return one.title == section; });
  std::map<std::string, std::string> values;
  for (const ConfigKey& key : it->keys) {
    const bool is_read = key.readers == 0 || (key.readers & objectives) != 0;
    if (key.is_passed_on && key.is_compared && is_read) values.emplace(key.name, key.print(&keys));
  }
  return values;
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
