// Finds the place of a quantile among ordered numbers.
#pragma once

#include <cstdint>

#include "backend/kernel.h"
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

// The numbers whose quantile it is, those of several ranks in `room` places each, of which `rows` are in use.
struct RankedNumbers {
  const float *numbers, *masks;
  int64_t rows, room, ranks;

  explicit RankedNumbers(const KernelArgs& args) : rows(args.inputs[0].elems()), room(rows), ranks(1) {
    const TensorView& of_ranks = args.inputs[2];
    const bool is_shared = of_ranks.data != nullptr;
    numbers = (is_shared ? of_ranks : args.inputs[0]).as<float>();
    masks = (is_shared ? args.inputs[3] : args.inputs[1]).as<float>();
    if (!is_shared) return;
    ranks = args.attributes.integer("ranks");
    room = of_ranks.elems() / ranks;
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t count() const { return ranks * rows; }
  [[nodiscard]] SPILLWAY_EITHER_SIDE float number(int64_t i) const { return numbers[i / rows * room + i % rows]; }
  [[nodiscard]] SPILLWAY_EITHER_SIDE bool counts(int64_t i) const { return masks[i / rows * room + i % rows] > 0; }
};

// Returns true if a comes before b in the order of numbers, NaN last.
[[nodiscard]] SPILLWAY_EITHER_SIDE inline bool comes_before(float a, float b) { return a < b || (a == a && b != b); }

}  // namespace spillway::ops
