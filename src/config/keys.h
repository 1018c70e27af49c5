// The one table of config keys: how each is spelled, what it means, what Spillway does with it, and where its value
// goes. The loader, the checks, `--help-config` and docs/config.md all read it. A key that is followed is one line in
// one of the keys_*.cc files, one that is not an entry of unsupported_keys.yml.
#pragma once

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

// A member of Spelled or SpelledDataset behind functions of one shape.
struct KeyBinding {
  void (*read)(const YamlNode& node, const KeyPlace& place, const Range& range, void* owner) = nullptr;
  std::string (*print)(const void* owner) = nullptr;
  std::string (*type)(const void* owner) = nullptr;
};

struct ConfigKey {
  // With dots for nested keys (`memory.device`); a `*` at the end stands for any rest.
  std::string_view name;
  KeyStatus status = KeyStatus::kSupported;
  std::string_view meaning;
  std::vector<std::string_view> aliases{};  // other spellings: TRL's, and older ones
  KeyBinding binding{};                     // of a supported key
  Range range{};
  // Of a key whose value is a list of datasets: where they go. Each entry's keys have a table of their own.
  std::vector<SpelledDataset>& (*entries)(void* owner) = nullptr;
  // Values that may be given to a key that is not yet done or refused, beside null, false and none.
  std::vector<std::string_view> harmless{};
  // What to do about a value that is not supported; empty where leaving the key out would train something else.
  std::string_view advice{};
  bool spares_rows = false;  // not yet done, but `preprocess` makes rows beside it; bound where they depend on it
  bool takes_null = false;   // an empty value means something
  bool takes_path = false;   // of a list of datasets: text is the path of the only one
  bool is_required = false;  // without a default
  bool is_path = false;      // or a list of them: `~` at the beginning is the home folder

  [[nodiscard]] ConfigKey alias(std::initializer_list<std::string_view> names) && {
    aliases = names;
    return std::move(*this);
  }
  [[nodiscard]] ConfigKey least(double value) && {
    range.least = value;
    return std::move(*this);
  }
  [[nodiscard]] ConfigKey above(double value) && {
    range.least = value;
    range.above_least = true;
    return std::move(*this);
  }
  [[nodiscard]] ConfigKey most(double value) && {
    range.most = value;
    return std::move(*this);
  }
  [[nodiscard]] ConfigKey required() && {
    is_required = true;
    return std::move(*this);
  }
  [[nodiscard]] ConfigKey or_path() && {
    takes_path = true;
    return std::move(*this);
  }
  [[nodiscard]] ConfigKey path() && {
    is_path = true;
    return std::move(*this);
  }
  [[nodiscard]] ConfigKey with_null() && {
    takes_null = true;
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

// Of a key on a command line: whether its name alone may say true, and whether it takes several words. False for what
// is no key.
[[nodiscard]] bool is_switch(std::string_view name);
[[nodiscard]] bool takes_words(std::string_view name);

// Whether `name` is no key, but holds some: `memory` of `memory.device`.
[[nodiscard]] bool is_key_group(std::string_view name);
[[nodiscard]] bool is_dataset_key_group(std::string_view name);

// All spellings of keys that are followed, and of those that are not, for the nearest known name.
[[nodiscard]] std::vector<std::string_view> key_names(bool is_followed);
[[nodiscard]] std::vector<std::string_view> dataset_key_names(bool is_followed);

// The keys that are followed, one function per file.
[[nodiscard]] std::vector<KeySection> model_sections();
[[nodiscard]] std::vector<KeySection> data_sections();
[[nodiscard]] std::vector<KeySection> training_sections();
[[nodiscard]] std::vector<KeySection> memory_sections();
[[nodiscard]] std::vector<KeySection> preference_sections();
[[nodiscard]] std::vector<KeySection> online_sections();
[[nodiscard]] std::vector<KeySection> reward_sections();
[[nodiscard]] std::vector<KeySection> video_sections();

// key<&Spelled::memory, &SpelledMemory::device>("memory.device", "...") binds a name to a member.
template <auto First, auto... Rest>
[[nodiscard]] ConfigKey key(std::string_view name, std::string_view meaning);

namespace internal {

template <typename Owner, typename Member>
Owner owner_of(Member Owner::*);

template <auto... Path>
struct MemberPath {
  template <typename Owner>
  static auto& reach(Owner& owner) {
    return (owner.*....*Path);
  }
};

}  // namespace internal

template <auto First, auto... Rest>
ConfigKey key(std::string_view name, std::string_view meaning) {
  using Owner = decltype(internal::owner_of(First));
  using Path = internal::MemberPath<First, Rest...>;
  using Member = std::remove_reference_t<decltype(Path::reach(std::declval<Owner&>()))>;
  ConfigKey row{.name = name, .meaning = meaning};
  row.binding.read = [](const YamlNode& node, const KeyPlace& place, const Range& range, void* owner) {
    read_value(node, place, range, Path::reach(*static_cast<Owner*>(owner)));
  };
  row.binding.print = [](const void* owner) { return print_value(Path::reach(*static_cast<const Owner*>(owner))); };
  if constexpr (std::is_same_v<Member, std::vector<SpelledDataset>>) {
    row.entries = [](void* owner) -> std::vector<SpelledDataset>& { return Path::reach(*static_cast<Owner*>(owner)); };
  }
  row.binding.type = [](const void* owner) { return type_of(Path::reach(*static_cast<const Owner*>(owner))); };
  return row;
}

}  // namespace spillway::config
