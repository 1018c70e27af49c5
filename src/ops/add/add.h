// The sum of two tensors.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns x + y, of one type, f32 or bf16; computed in f32 and rounded once. May take the place of either. It is a
// SumFunction of graph/autodiff.h.
[[nodiscard]] ValueId add(Builder& builder, ValueId x, ValueId y);

}  // namespace spillway::ops
