// Reads the list in which a config.json says of what type each layer is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_field.h"

namespace spillway {

// Returns the types that `key` lists, or `missing` where it is absent or empty. Throws InputError for another number of
// types than `missing` has, which is that of the layers.
[[nodiscard]] std::vector<std::string> read_layer_types(const JsonField& json, std::string_view key,
                                                        std::vector<std::string> missing);

}  // namespace spillway
