// The sum or the mean of the numbers of a vector, over the rows in use.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Return the sum or mean of x, f32 [R] with or without an axis: f32 [1], 0 for no rows. Summed in f64 in an order that
// depends on the number of rows alone, and rounded once. Differentiable.
[[nodiscard]] ValueId row_sum(Builder& builder, ValueId x);
[[nodiscard]] ValueId row_mean(Builder& builder, ValueId x);

}  // namespace spillway::ops
