// Adds the biases of experts to the rows of their pairs.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns rows [T, k * O], f32 or bf16, sorted by expert (sort_pairs), each plus its expert's row of bias, f32 or bf16
// [E, O]; added in f32 and rounded once. offsets: i32 [E + 1]. May take the place of rows. Each gradient of the bias is
// a sum over its expert's rows in their order.
[[nodiscard]] ValueId add_expert_bias(Builder& builder, ValueId rows, ValueId bias, ValueId offsets);

}  // namespace spillway::ops
