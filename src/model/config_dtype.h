// The dtype that a config.json names for the weights beside it.
#pragma once

#include <nlohmann/json.hpp>

#include "tensor/dtype.h"

namespace spillway {

// Makes a config.json, and the configs of parts inside it, name `dtype` under the key that each has: `dtype`, or
// `torch_dtype` of transformers 4. The outermost gets one where it has none. REQUIRES: an object; a floating dtype.
void set_config_dtype(nlohmann::ordered_json& config, DType dtype);

}  // namespace spillway
