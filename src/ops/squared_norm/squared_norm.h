// The squared Euclidean norm of a tensor.
#pragma once

#include <span>

#include "graph/builder.h"

namespace spillway::ops {

// Returns the sum of x[i]^2, f32 [1]; x is f32 or bf16. Summed in f32 over fixed blocks of elements, and in f64 over
// the blocks; order.h has the order.
[[nodiscard]] ValueId squared_norm(Builder& builder, ValueId x);

// The same norm in two steps, for a tensor whose parts the ranks have (tensor/cut.h): the sums of blocks of each part,
// and the norm of a tensor from the sums of all its blocks, which may come in several pieces. A short last block may be
// filled up with zeros.
//
// Returns the sum of each block of x, f32 [blocks]. x is f32 or bf16, and split if it is a part.
[[nodiscard]] ValueId block_squares(Builder& builder, ValueId x);
// Returns what squared_norm() returns of a tensor with these sums of blocks, f32 each, in their order.
[[nodiscard]] ValueId squared_norm_of_blocks(Builder& builder, std::span<const ValueId> sums);

}  // namespace spillway::ops
