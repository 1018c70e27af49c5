// Matches a pattern of lora_target_modules against the modules of a model.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "model/parameters.h"

namespace spillway::train {

// Returns the paths of the blocks' linear layers that the pattern matches in full ("model.layers.0.mlp.up_proj").
// Throws InputError at `where` if there are none.
[[nodiscard]] std::set<std::string, std::less<>> modules_matching(const ParameterTable& parameters,
                                                                  std::string_view pattern, std::string_view where);

}  // namespace spillway::train
