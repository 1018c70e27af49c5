// Full fine-tuning of some weights: axolotl's unfrozen_parameters.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/parameters.h"
#include "ops/row_slice.h"

namespace spillway::train {

// The weights that are trained, by name, and of each the rows whose gradient counts, ascending and disjoint; none: all.
using UnfrozenWeights = std::map<std::string, std::vector<ops::RowSlice>, std::less<>>;

// A pattern is a regular expression for the start of a name in which a dot is a dot; rows may stand behind it: [a:b],
// [a:],
// [:b] or [a]. Several patterns unite. Throws InputError for what is no pattern, meets no weight of the model, or names
// rows that are not there.
[[nodiscard]] UnfrozenWeights unfrozen_weights(const ParameterTable& parameters, std::span<const std::string> patterns);

}  // namespace spillway::train
