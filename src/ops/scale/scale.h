// Multiplies a tensor by a number.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns factor * x, of x's type, f32 or bf16 of any shape; computed in f32 and rounded once. May take the place of x;
// it is x itself if the factor is 1.
[[nodiscard]] ValueId scale(Builder& builder, ValueId x, double factor);

// The same with a number of the graph: f32 [1], which is a constant to gradients.
[[nodiscard]] ValueId scale_by(Builder& builder, ValueId x, ValueId factor);

}  // namespace spillway::ops
