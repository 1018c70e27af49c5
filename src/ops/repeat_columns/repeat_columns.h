// Repeats the columns of a matrix side by side.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns [x x ... x], `times` times: [R, D], f32 or bf16, gives [R, times * D] of its dtype. The gradient is the sum
// over the times, in f32 and rounded once. REQUIRES: times is 1 or more.
[[nodiscard]] ValueId repeat_columns(Builder& builder, ValueId x, int64_t times);

}  // namespace spillway::ops
