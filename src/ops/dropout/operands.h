// The operands of dropout, and what decides which random numbers drop an element: the same on the CPU and on GPUs.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/kernel.h"
#include "ops/optimizers/either_side.h"

namespace spillway::ops {

namespace dropout_op {
// The offsets may be absent.
enum Input : int { kX, kSeed, kOffsets };
}  // namespace dropout_op

// Returns the limit for which bits >> 8 < limit is the same as uniform_float(bits) < p, in integers.
[[nodiscard]] inline uint32_t drop_limit(double p) {
  return static_cast<uint32_t>(std::ceil(double{static_cast<float>(p)} * 0x1p24));
}

// The place in its stream at which x begins.
struct DropPlace {
  const int32_t* offsets = nullptr;  // null: at the stream's beginning
  int64_t width = 0;                 // elements of a row
  int64_t before = 0;                // elements of the tiles before this one

  explicit DropPlace(const KernelArgs& args) {
    const TensorView& x = args.inputs[dropout_op::kX];
    if (args.inputs.size() > dropout_op::kOffsets) offsets = args.inputs[dropout_op::kOffsets].as<int32_t>();
    if (x.shape[0] > 0) width = x.elems() / x.shape[0];
    before = args.attributes.integer_or("tile", 0) * x.elems();
  }
  // Returns the first element of x, counted from the stream's first.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t first() const {
    return before - (offsets == nullptr ? 0 : static_cast<int64_t>(offsets[0]) * width);
  }
};

}  // namespace spillway::ops
