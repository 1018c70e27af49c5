// Multiplies the rows of pairs by the weights of their experts.
#pragma once

#include "graph/builder.h"
#include "ops/sort_pairs/sort_pairs.h"

namespace spillway::ops {

// Returns rows [T, k * D], f32 or bf16, in the order of `pairs`, each times its pair's weight of `weights`, f32 [T, k];
// rounded once. Without `pairs` the rows are those of pairs in their own order, such as one row for each token. May
// take the place of rows.
[[nodiscard]] ValueId weigh_rows(Builder& builder, ValueId rows, ValueId weights, const SortedPairs& pairs = {});

}  // namespace spillway::ops
