// Copies the rows of tokens to the places of their pairs.
#pragma once

#include "graph/builder.h"
#include "ops/sort_pairs/sort_pairs.h"

namespace spillway::ops {

// Returns rows of pairs [T, k * D] in the order of `pairs`: each is the row of its token in x [T, D], f32 or bf16, bit
// for bit. The gradient is combine_rows.
[[nodiscard]] ValueId gather_rows(Builder& builder, ValueId x, const SortedPairs& pairs);

}  // namespace spillway::ops
