// Converts between f32 and bf16.
#pragma once

#include "graph/autodiff.h"
#include "graph/builder.h"

namespace spillway::ops {

// Returns x in `dtype` (f32 or bf16, rounded to nearest even); x itself if it has that dtype already.
[[nodiscard]] ValueId cast(Builder& builder, ValueId x, DType dtype);

// For vjps: adds `cotangent`, in the dtype in which the gradient of input i is kept.
void add_cotangent(VjpContext& context, int i, ValueId cotangent);

}  // namespace spillway::ops
