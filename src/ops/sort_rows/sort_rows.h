// Sorts the numbers of a vector.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns the numbers of x, f32 [R] with or without an axis, in ascending order over the rows in use: of x's type. NaN
// comes last. The gradient goes back to a number's former place; equal numbers keep their order, as in a stable sort.
//
// Compares every number with every other, which suits the few rows of a micro-batch.
[[nodiscard]] ValueId sort_rows(Builder& builder, ValueId x);

}  // namespace spillway::ops
