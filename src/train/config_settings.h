// The keys that a config sets, each once and under its canonical name, before their values are read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/config_keys.h"
#include "train/config_load.h"
#include "train/yaml.h"

namespace spillway::train {

struct Setting {
  const ConfigKey* key = nullptr;
  std::string spelled;
  KeyPlace place;
  YamlNode value;
};

// The settings of a mapping: the whole config, or one entry of `datasets`. An unknown key, and two spellings of a key
// that say different things, are InputErrors.
[[nodiscard]] std::vector<Setting> collect_settings(const YamlNode& root, const KeyPlace& place);
[[nodiscard]] std::vector<Setting> collect_dataset_settings(const YamlNode& entry, const KeyPlace& place);

// Puts what the command line says in place of what the file says.
void apply_overrides(std::vector<Setting>& settings, std::span<const ConfigOverride> overrides);

// Reads every supported setting into `owner` (a Config or a DatasetConfig), refuses those that ask for what is not
// there, and returns the spellings of those that are ignored.
std::vector<std::string> read_settings(std::span<const Setting> settings, void* owner);

}  // namespace spillway::train
