// Converts rows of a bf16 tensor to f32 and back, to update bf16 tensors in f32.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// Returns the slice of a bf16 tensor in f32. Not differentiable, like the rest of this file.
[[nodiscard]] ValueId widen_rows(Builder& builder, ValueId x, const RowSlice& rows);

// The rounding of a number to one of its two neighbours in bf16: the nearer with the larger probability, so that the
// mean of many is the number. The choice depends on these, the step and the place of the element in the whole tensor
// alone.
struct StochasticRounding {
  int64_t seed = 0;
  int64_t stream = 0;    // another for each tensor
  ValueId step = kNone;  // i32 [1]
};

// Returns the next version of the bf16 tensor `x`, whose place it takes: `values`, f32, in the slice, and the rest
// unchanged. Rounds to nearest even unless stochastically. NaN stays NaN, infinity infinity.
[[nodiscard]] ValueId narrow_rows(Builder& builder, ValueId values, ValueId x, const RowSlice& rows,
                                  const std::optional<StochasticRounding>& rounding = {});

}  // namespace spillway::ops
