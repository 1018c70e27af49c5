// Clears an accumulator, or rows of a gradient.
#pragma once

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// Returns zeros of x's type. May take x's place; x is not read afterwards.
[[nodiscard]] ValueId zero(Builder& builder, ValueId x);
// Returns x with zeros in those rows. May take x's place.
[[nodiscard]] ValueId zero_rows(Builder& builder, ValueId x, const RowSlice& rows);

}  // namespace spillway::ops
