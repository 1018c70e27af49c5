// The rows of a small tensor that belong to a rank: numbers of its heads or channels.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns rows [r * n, (r + 1) * n) of x [N, ...], f32 or bf16, on rank r of each group of `ranks` neighbours, where
// n = ceil(N / ranks); zeros behind the last one. The gradient is zero for the rows of other ranks. REQUIRES:
// ranks >= 2.
[[nodiscard]] ValueId own_elements(Builder& builder, ValueId x, int64_t ranks);

}  // namespace spillway::ops
