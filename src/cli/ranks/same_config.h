// The keys of a config that all ranks of a job must have alike.
#pragma once

#include <nlohmann/json.hpp>

#include "config/spelled.h"

namespace spillway {

// Returns the values of all keys but those that may differ from rank to rank, by name: those that are declared so, and
// paths, whose content is compared where it counts.
[[nodiscard]] nlohmann::ordered_json keys_alike(const config::Spelled& keys);

}  // namespace spillway
