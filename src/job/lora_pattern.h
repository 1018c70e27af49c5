// The modules of a model that a pattern of lora_target_modules means.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "model/parameters.h"

namespace spillway::train {

// The paths of the linear layers of the blocks which the pattern matches from end to end
// ("model.layers.0.mlp.up_proj"). Throws InputError at `where` where there are none.
[[nodiscard]] std::set<std::string, std::less<>> modules_matching(const ParameterTable& parameters,
                                                                  std::string_view pattern, std::string_view where);

}  // namespace spillway::train
