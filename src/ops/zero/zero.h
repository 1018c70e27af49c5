// Clearing of an accumulator, or of rows of a gradient.
#pragma once

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// Zeros of x's type. May take x's place; x is read by nobody else afterwards.
[[nodiscard]] ValueId zero(Builder& builder, ValueId x);
// x, but for zeros in those rows. May take x's place.
[[nodiscard]] ValueId zero_rows(Builder& builder, ValueId x, const RowSlice& rows);

}  // namespace spillway::ops
