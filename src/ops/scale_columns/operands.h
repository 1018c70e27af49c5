// The inputs of the two operations.
#pragma once

#include <cstddef>

namespace spillway::ops::scale_columns_input {

inline constexpr size_t kX = 0, kFactor = 1, kBias = 2, kAddend = 3;
// The inputs of the gradient: x, the factor, the cotangent, and the addend of the factor's gradient.
inline constexpr size_t kCotangent = 2, kFactorAddend = 3;

}  // namespace spillway::ops::scale_columns_input
