// Finds the place of a quantile among ordered numbers.
#pragma once

#include <cstdint>

#include "ops/optimizers/either_side.h"

namespace spillway::ops {

struct QuantilePlace {
  int64_t low, high;  // into the numbers in ascending order
  float share;        // of the way from one to the other

  [[nodiscard]] SPILLWAY_EITHER_SIDE float between(float a, float b) const {
    // Interpolates as torch.lerp does, so that either end is met.
    return share < 0.5f ? a + share * (b - a) : b - (b - a) * (1 - share);
  }
};

// REQUIRES: count > 0.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline QuantilePlace quantile_place(float q, int64_t count) {
  const float place = q * static_cast<float>(count - 1);
  const auto low = static_cast<int64_t>(place);
  const int64_t high = low + 1 < count ? low + 1 : low;
  return {low, high, place - static_cast<float>(low)};
}

// Returns true if a comes before b in the order of numbers, NaN last.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline bool comes_before(float a, float b) { return a < b || (a == a && b != b); }

}  // namespace spillway::ops
