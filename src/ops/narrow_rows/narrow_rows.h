// Rows of a bf16 tensor as f32 and back: how what is kept in bf16 is updated in f32.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// The slice of a bf16 tensor in f32. Not differentiable, like what follows.
[[nodiscard]] ValueId widen_rows(Builder& builder, ValueId x, const RowSlice& rows);

// Which of the two neighbours in bf16 a number becomes: the nearer with the larger probability, so that the mean of
// many is the number. The choice depends on these, the step and the place of the element in the whole tensor alone.
struct StochasticRounding {
  int64_t seed = 0;
  int64_t stream = 0;    // another for each tensor
  ValueId step = kNone;  // i32 [1]
};

// The next version of the bf16 tensor `x`, whose place it takes: `values`, f32, in the slice, and all else as it is.
// Rounded to nearest even where not stochastically. NaN stays NaN, infinity infinity.
[[nodiscard]] ValueId narrow_rows(Builder& builder, ValueId values, ValueId x, const RowSlice& rows,
                                  const std::optional<StochasticRounding>& rounding = {});

}  // namespace spillway::ops
