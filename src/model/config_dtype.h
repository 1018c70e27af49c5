// The dtype in a config.json, that of the weights beside it.
#pragma once

#include <nlohmann/json.hpp>

#include "tensor/dtype.h"

namespace spillway {

// Sets `dtype` in a config.json and in the configs of parts inside it, under the key that each has: `dtype`, or
// `torch_dtype` of transformers 4. Adds it to the outermost config if that has none. REQUIRES: an object; a floating
// dtype.
void set_config_dtype(nlohmann::ordered_json& config, DType dtype);

}  // namespace spillway
