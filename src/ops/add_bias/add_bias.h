// The bias of a linear layer.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// y [T, O] plus bias [O] in every row, in the dtype of y; each f32 or bf16. May take the place of y.
[[nodiscard]] ValueId add_bias(Builder& builder, ValueId y, ValueId bias);

}  // namespace spillway::ops
