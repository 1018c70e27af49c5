// Numbers that the ranks of a group add up, as those of sequences that they share.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns the sum of x, f32, over the ranks of this rank's group of `ranks` neighbours: of x's type, in order of
// rank, and so of the same bits on each of them. What they compute of it is the same, too, and its cotangent is the
// gradient of each one's x. Groups may have different numbers of rows: what travels is what x has room for. REQUIRES:
// ranks >= 2.
[[nodiscard]] ValueId sum_over_ranks(Builder& builder, ValueId x, int64_t ranks);

}  // namespace spillway::ops
