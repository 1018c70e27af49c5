// The sum over the rows of a matrix: the gradient of an operand that is added to every row, such as a bias.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns the sum of the rows of x [T, N] and of `addend` [N], if there is one, summed in f32: [N] of `dtype`, which is
// the addend's. The result may take the addend's place. x and dtype are each f32 or bf16. Not differentiable.
[[nodiscard]] ValueId sum_rows(Builder& builder, ValueId x, ValueId addend, DType dtype);

}  // namespace spillway::ops
