// Some rows of a tensor, such as that of the last token.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// [n, D]: row i is row index[i] of x [T, D], of any dtype. index i32 [n], each below the rows of x. Not differentiable.
[[nodiscard]] ValueId gather_rows(Builder& builder, ValueId x, ValueId index);

}  // namespace spillway::ops
