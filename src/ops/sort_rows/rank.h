// Computes the rank of a number.
#pragma once

#include <cstdint>

#include "ops/optimizers/either_side.h"

namespace spillway::ops {

// Counts the numbers that come before x[i]: smaller ones, equal ones that stand before it, and for NaN all others.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline int64_t rank_of(const float* x, int64_t rows, int64_t i) {
  const float own = x[i];
  const bool is_nan = own != own;
  int64_t rank = 0;
  for (int64_t j = 0; j < rows; ++j) {
    const float other = x[j];
    const bool is_equal = is_nan ? other != other : other == own;
    const bool is_smaller = is_nan ? other == other : other < own;
    rank += is_smaller || (is_equal && j < i) ? 1 : 0;
  }
  return rank;
}

}  // namespace spillway::ops
