// A tensor times a number.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// factor * x, of x's type, f32 or bf16 of any shape; computed in f32 and rounded once. May take the place of x, which
// it is where the factor is 1.
[[nodiscard]] ValueId scale(Builder& builder, ValueId x, double factor);

}  // namespace spillway::ops
