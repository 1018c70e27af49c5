// The values of Python's YAML reader (YAML 1.1): the keys of other trainers are of its types.
#pragma once

#include <nlohmann/json.hpp>

#include "config/yaml.h"

namespace spillway::config {

// `yes`, `off` and `true` are booleans, `12` and `-1_000` integers, `1.5`, `.5` and `1.0e+3` numbers; all other words,
// and whatever is in quotes, are text. Null and the elements of lists and mappings in their places.
[[nodiscard]] nlohmann::ordered_json json_of(const YamlNode& node);

}  // namespace spillway::config
