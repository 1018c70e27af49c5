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

// The weights that are trained, by name, each with the rows whose gradient counts, ascending and disjoint; none means
// all.
using UnfrozenWeights = std::map<std::string, std::vector<ops::RowSlice>, std::less<>>;

// Returns the weights that match. A pattern is a regular expression for the start of a name, in which a dot means a
// dot; it may be followed by rows: [a:b], [a:], [:b] or [a]. The rows of several patterns are united. Throws InputError
// for an invalid pattern, one that matches no weight of the model, and for rows that do not exist.
[[nodiscard]] UnfrozenWeights unfrozen_weights(const ParameterTable& parameters, std::span<const std::string> patterns);

}  // namespace spillway::train
