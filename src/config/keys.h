// The one table of config keys: how each is spelled, what it means, what Spillway does with it, and where its value
// goes. The loader, the checks, `--help-config`, docs/config.md and the comparison of a resumed run all read it. A key
// that is followed is one declaration in a file of keys/ (docs/add-a-key.md), any other an entry of
// unsupported_keys.yml.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/values.h"

namespace spillway::config {

enum class KeyStatus {
  kSupported,
  kIgnored,  // makes no difference here; `meaning` says what is done instead
  kNotYet,   // its effect is to come; `meaning` says what it is. The off value is accepted
  kRefused,  // its effect will not come; `meaning` says why. The off value is accepted
};

// The objectives that read a key, as bits.
namespace read_by {
enum Objectives : uint32_t {
  kDpo = 1,
  kKto = 2,
  kOrpo = 4,
  kCpo = 8,
  kReward = 16,
  kSteps = 32,
  kPreferences = 63,  // all of the above
  kGrpo = 64,
  kRloo = 128,
  kOnlineDpo = 256,
  kPpo = 512,
  kOnline = kGrpo | kRloo | kOnlineDpo | kPpo,
};
}  // namespace read_by

struct ConfigKey {
  // With dots for nested keys (`memory.device`); a `*` at the end stands for any rest.
  std::string_view name;
  KeyStatus status = KeyStatus::kSupported;
  std::string_view meaning;
  std::vector<std::string> aliases{};  // other spellings: TRL's, and older ones

  // The rest is of a supported key. Its member of Spelled or SpelledDataset, and how values of that type are read.
  const ValueType* type = nullptr;
  void* (*member)(void* owner) = nullptr;
  Range range{};
  uint32_t readers = 0;       // read_by::Objectives; 0: not a matter of the objective
  std::string_view owners{};  // the readers, for messages: "dpo and kto"

  // The rest is of a key that is not supported. Values that may be given beside null, false and none.
  std::vector<std::string_view> harmless{};
  // What to do about a value that is not supported; empty where leaving the key out would train something else.
  std::string_view advice{};

  bool spares_rows = false;   // `preprocess` makes rows beside it, whatever it says
  bool takes_null = false;    // an empty value means something
  bool takes_path = false;    // of a list of datasets: text is the path of the only one
  bool is_required = false;   // without a default
  bool is_path = false;       // or a list of them: `~` at the beginning is the home folder
  bool is_passed_on = false;  // the member is one of a settings struct, too, and goes there as it is
  bool is_of_text = false;    // means tokens or chat, and nothing to a model of clips
  bool is_compared = true;    // a run that goes on with another value says so
  bool is_per_rank = false;   // ranks of a job may have values of their own

  // Reads a value into the key's member of `owner`, a Spelled or a SpelledDataset. Throws InputError.
  void read(const YamlNode& node, const KeyPlace& place, void* owner) const {
    type->read(node, place, range, member(owner));
  }
  // Returns the member's value as a config writes it; empty where it has no short form.
  [[nodiscard]] std::string print(const void* owner) const { return type->print(member(const_cast<void*>(owner))); }
  // Returns the member that holds a list of datasets; null for a key of another type.
  [[nodiscard]] std::vector<SpelledDataset>* datasets(void* owner) const {
    return type == &kValueType<std::vector<SpelledDataset>> ? static_cast<std::vector<SpelledDataset>*>(member(owner))
                                                            : nullptr;
  }

  // The attributes of a declaration (docs/add-a-key.md).

  template <typename... Names>
  ConfigKey&& alias(Names... names) && {
    (aliases.emplace_back(names), ...);
    return std::move(*this);
  }
  // The key may stand in axolotl's section `trl:`, too.
  ConfigKey&& trl() && { return std::move(*this).alias("trl." + std::string(name)); }
  // The key may stand in TRL's generation_kwargs, too.
  ConfigKey&& generation() && {
    const std::string nested = "generation_kwargs." + std::string(name);
    return std::move(*this).alias(nested, "trl." + nested);
  }
  ConfigKey&& least(double value) && {
    range.least = value;
    return std::move(*this);
  }
  ConfigKey&& above(double value) && {
    range.above_least = true;
    return std::move(*this).least(value);
  }
  ConfigKey&& most(double value) && {
    range.most = value;
    return std::move(*this);
  }
  // From `low` to `high`, both included.
  ConfigKey&& in(double low, double high) && { return std::move(*this).least(low).most(high); }
  // Only some objectives read it; to others it means nothing, and a verdict says so.
  ConfigKey&& of(uint32_t objectives, std::string_view names) && {
    readers = objectives;
    owners = names;
    return std::move(*this);
  }
  ConfigKey&& required() && { return std::move(*this).with(is_required); }
  ConfigKey&& or_path() && { return std::move(*this).with(takes_path); }
  ConfigKey&& path() && { return std::move(*this).with(is_path); }
  ConfigKey&& with_null() && { return std::move(*this).with(takes_null); }
  ConfigKey&& of_text() && { return std::move(*this).with(is_of_text); }
  // A rank reads it for itself, or rank 0 alone.
  ConfigKey&& per_rank() && { return std::move(*this).with(is_per_rank); }
  ConfigKey&& passed_on() && { return std::move(*this).with(is_passed_on); }
  // No result depends on it, or what it changes is compared by another name.
  ConfigKey&& not_compared() && {
    is_compared = false;
    return std::move(*this);
  }

 private:
  ConfigKey&& with(bool& flag) && {
    flag = true;
    return std::move(*this);
  }
};

// A section of the table, as the help prints it.
struct KeySection {
  std::string_view title;
  std::vector<ConfigKey> keys;
};

inline constexpr std::string_view kDatasetSection = "Entries of datasets and test_datasets";

// All top-level keys, and those of one entry of `datasets` and `test_datasets`. Made once; any thread.
[[nodiscard]] std::span<const KeySection> config_sections();
[[nodiscard]] const KeySection& dataset_section();

// The key that `name` spells, by its name, an alias or a `*`; null where there is none.
[[nodiscard]] const ConfigKey* find_key(std::string_view name);
[[nodiscard]] const ConfigKey* find_dataset_key(std::string_view name);

// Returns true of a key whose name alone may say true on a command line; false for what is no key.
[[nodiscard]] bool is_switch(std::string_view name);
// Returns true of a key that takes several words on a command line; false for what is no key.
[[nodiscard]] bool takes_words(std::string_view name);

// Returns true where `name` holds keys: `memory` of `memory.device`.
[[nodiscard]] bool is_key_group(std::string_view name);
[[nodiscard]] bool is_dataset_key_group(std::string_view name);

// All spellings of keys that are followed, and of those that are not, for the nearest known name.
[[nodiscard]] std::vector<std::string_view> key_names(bool is_followed);
[[nodiscard]] std::vector<std::string_view> dataset_key_names(bool is_followed);

// Name -> value of the keys of a section that are passed on and compared, and that the objectives read.
[[nodiscard]] std::map<std::string, std::string> compared_values(std::string_view section, uint32_t objectives,
                                                                 const Spelled& keys);

}  // namespace spillway::config
