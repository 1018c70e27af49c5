// The squared Euclidean norm of a tensor.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns the sum of x[i]^2, f32 [1]; x is f32 or bf16. Summed in f32 over fixed blocks of elements, and in f64 over
// the blocks; order.h has the order.
[[nodiscard]] ValueId squared_norm(Builder& builder, ValueId x);

}  // namespace spillway::ops
