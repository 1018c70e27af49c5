#include "cli/ranks/same_config.h"

#include <string>

#include "config/keys.h"

namespace spillway {
nlohmann::ordered_json keys_alike(const config::Spelled& keys) {
  auto result = nlohmann::ordered_json::object();
  for (const config::KeySection& section : config::config_sections())
    for (const config::ConfigKey& key : section.keys)
      if (key.status == config::KeyStatus::kSupported && !key.is_path && !key.is_per_rank)
        result[std::string(key.name)] = key.print(&keys);
  return result;
}

}  // namespace spillway
