// Sorting of the numbers of a vector.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// The numbers of x, f32 [R] with or without an axis, in ascending order over the rows in use: of x's type. NaN comes
// last. The gradient goes to where a number came from; equal numbers keep their order, as a stable sort's.
//
// Every number is compared with every other: made for the rows of a micro-batch, of which there are few.
[[nodiscard]] ValueId sort_rows(Builder& builder, ValueId x);

}  // namespace spillway::ops
