// Adds a row to every row of a matrix.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns x + row, in x's type: x [R, D] and row [D], each f32 or bf16; computed in f32 and rounded once. May take the
// place of x. (A row that is added to a product is its bias: see matmul.)
[[nodiscard]] ValueId add_row(Builder& builder, ValueId x, ValueId row);

}  // namespace spillway::ops
