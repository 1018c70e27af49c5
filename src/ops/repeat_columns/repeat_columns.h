// Repeats the columns of a matrix side by side.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns [x x ... x], `times` times: f32 [R, D] gives f32 [R, times * D]. The gradient is the sum over the times.
// REQUIRES: times is 1 or more.
[[nodiscard]] ValueId repeat_columns(Builder& builder, ValueId x, int64_t times);

}  // namespace spillway::ops
