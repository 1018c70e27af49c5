// Clears an accumulator, or rows of a gradient; makes zeros with which a sum begins.
#pragma once

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// Returns zeros of x's type. May take x's place; x is not read afterwards.
[[nodiscard]] ValueId zero(Builder& builder, ValueId x);
// Returns x with zeros in those rows. May take x's place.
[[nodiscard]] ValueId zero_rows(Builder& builder, ValueId x, const RowSlice& rows);
// Returns the operation that makes zeros of a type, without its outputs, for a caller that builds graphs by hand
// (graph/repeat_by_block.h). REQUIRES: the type follows no axis.
[[nodiscard]] Operation zeros(const ValueType& type);

}  // namespace spillway::ops
