// Marks the largest numbers of a vector, by a quantile of those that count.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns 1 where mask is above 0 and x is at least the quantile `q`, from 0 to 1, of the numbers whose mask is above
// 0; else 0. x and mask are f32 [T] with or without an axis, of which the rows in use count; the result has their type.
// Between two numbers the quantile is interpolated linearly, in f32, as torch.quantile does. Not differentiable. NaN
// counts as the largest.
//
// On a GPU every number is compared with every other, which suits the tokens of a micro-batch.
[[nodiscard]] ValueId quantile_mask(Builder& builder, ValueId x, ValueId mask, double q);

}  // namespace spillway::ops
