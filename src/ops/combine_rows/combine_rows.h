// Adds up the rows of each token's pairs.
#pragma once

#include "graph/builder.h"
#include "ops/sort_pairs/sort_pairs.h"

namespace spillway::ops {

// Returns [T, D]: for each token, the sum of its k rows of `rows`, f32 or bf16 [T, k * D] in the order of `pairs`, and
// of the addend [T, D] where there is one. Sums are f32, begin with the addend and go by the number of the pair,
// whatever the order of the rows; they are rounded once. The gradient of rows is gather_rows. May take the addend's
// place.
[[nodiscard]] ValueId combine_rows(Builder& builder, ValueId rows, const SortedPairs& pairs, ValueId addend = kNone);

}  // namespace spillway::ops
