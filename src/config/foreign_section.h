// Sections of a config that were written for another program (DeepSpeed, FSDP): each of their keys becomes a key of
// ours, is known to mean nothing here, or asks for what is not there.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"

namespace spillway::config {

struct LoadedConfig;  // config/load.h

struct ForeignWord {
  std::string_view theirs;
  std::string_view ours;  // empty: what happens anyway
};

// A switch that is one of our `*_offload` keys.
inline constexpr ForeignWord kToHost[] = {{"true", "host"}, {"false", ""}};

struct ForeignKey {
  enum class Use : uint8_t {
    kBecomes,    // a key of ours
    kIgnored,    // cannot matter here, whatever is below it
    kMustBeOff,  // asks for what is not there; null, false, none, 0 and `enabled: false` are fine
    kRefused,    // as kMustBeOff, and a run without it would train something else
    kNotYet,     // as kMustBeOff, of what is to come
    kSpecial,    // only together with others; its section's code reads it
  };
  std::string_view name;  // with dots, and an index for an item of a list (`betas.0`)
  Use use;
  std::string_view text;                 // our key; of kMustBeOff, what is not there; of kIgnored, why
  std::span<const ForeignWord> words{};  // the values it takes; empty: those of our key
};

struct ForeignTable {
  std::string_view program;  // "DeepSpeed"
  std::string_view key;      // "deepspeed"
  std::span<const ForeignKey> keys;
};

struct ForeignSetting {
  const ForeignKey* key = nullptr;
  KeyPlace place;
  YamlNode value;
};

// The values of a section, in its order. "auto", by which these programs mean the trainer's own setting, counts as
// left out. An unknown key is wrong, naming the nearest known one; throws InputError for what is no mapping.
[[nodiscard]] std::vector<ForeignSetting> collect_foreign(const ForeignTable& table, const YamlNode& section,
                                                          const KeyPlace& place, Verdicts& verdicts);

// The setting of that name; null where there is none.
[[nodiscard]] const ForeignSetting* find_foreign(std::span<const ForeignSetting> foreign, std::string_view name);

// Adds what the section says to the settings. Where one of ours says otherwise, the command line and a value win over
// `auto`; anything else is wrong, naming both. Every key gets its verdict.
void merge_foreign(const ForeignTable& table, std::span<const ForeignSetting> foreign, std::vector<Setting>& settings,
                   Verdicts& verdicts);

// Adds one setting of ours in the same way; a contradiction is an InputError.
void merge_setting(std::vector<Setting>& settings, Setting setting);

// Returns the number of ranks, which the launcher or the settings say.
[[nodiscard]] int64_t ranks_of(std::span<const Setting> settings, const LoadedConfig& loaded);
// Returns the number of groups of ranks, which each have micro-batches of their own; that of the ranks where the size
// of a group does not divide it.
[[nodiscard]] int64_t groups_of_ranks(std::span<const Setting> settings, const LoadedConfig& loaded);
// The verdict on keys that say what ranks split, on one rank.
inline constexpr std::string_view kNothingToShard = "on one rank there is nothing to shard";

// Both programs keep gradients where the optimizer is: gives gradient_offload optimizer_offload's value where it has
// none.
void follow_optimizer(std::vector<Setting>& settings, const KeyPlace& place);

// The setting with a value of a canonical key; null where there is none.
[[nodiscard]] const Setting* find_setting(std::span<const Setting> settings, std::string_view key);

}  // namespace spillway::config
