#include "cli/ranks/same_config.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "config/keys.h"

namespace spillway {
namespace {

bool may_differ(const config::ConfigKey& key) {
  constexpr std::string_view kOfRank[] = {"device", "num_processes", "num_gpus", "hub_token", "gpu_memory_limit"};
  return key.is_path || key.name.starts_with("memory.") ||
         std::find(std::begin(kOfRank), std::end(kOfRank), key.name) != std::end(kOfRank);
}

}  // namespace

nlohmann::ordered_json keys_alike(const config::Spelled& keys) {
  auto result = nlohmann::ordered_json::object();
  for (const config::KeySection& section : config::config_sections())
    for (const config::ConfigKey& key : section.keys)
      if (key.status == config::KeyStatus::kSupported && !may_differ(key))
        result[std::string(key.name)] = key.print(&keys);
  return result;
}

}  // namespace spillway
