// The keys that a config sets, each once and under its canonical name, before their values are read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/keys.h"
#include "config/load.h"
#include "config/verdict.h"
#include "config/yaml.h"

namespace spillway::config {

struct Setting {
  const ConfigKey* key = nullptr;
  std::string spelled;
  KeyPlace place;
  YamlNode value;
};

// Returns true if a value asks for nothing: empty, false, none, an empty list or mapping.
[[nodiscard]] bool is_off(const YamlNode& value);

// The settings of the whole config. An unknown key, and two spellings of a key that say different things, are wrong;
// only what is no mapping at all throws.
[[nodiscard]] std::vector<Setting> collect_settings(const YamlNode& root, const KeyPlace& place, Verdicts& verdicts);

// Puts what the command line says in place of what the file says.
void apply_overrides(std::vector<Setting>& settings, std::span<const ConfigOverride> overrides, Verdicts& verdicts);

// Reads every supported setting into `owner` (a Spelled or a SpelledDataset), with a verdict on each.
void read_settings(std::span<const Setting> settings, void* owner, Verdicts& verdicts);

}  // namespace spillway::config
