// lora_target_modules as one text: a pattern, as PEFT takes it.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "model/config.h"

namespace spillway::train {

// Whether a name is a pattern rather than a module's name or the end of its path.
[[nodiscard]] bool is_module_pattern(std::string_view name);

// Throws InputError at `where` for what is no regular expression.
void check_module_pattern(std::string_view pattern, std::string_view where);

// The paths of the linear layers of the blocks which the pattern matches from end to end
// ("model.layers.0.mlp.up_proj"). Throws InputError at `where` where there are none.
[[nodiscard]] std::set<std::string, std::less<>> modules_matching(const ModelConfig& model, std::string_view pattern,
                                                                  std::string_view where);

}  // namespace spillway::train
