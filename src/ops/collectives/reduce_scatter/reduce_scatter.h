// The sum of all ranks' tensors, of which each rank keeps its part.
#pragma once

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// The ranks that add up a tensor.
struct SumRanks {
  int ranks = 2;     // of which each has a part; at least 2
  int copies = 1;    // groups of so many ranks, of which each has all parts
  int together = 1;  // neighbours whose contributions are added to each other first (FoldOrder)
};

// Returns the next version of `part`, this rank's part of a sum over some rows of a tensor: to it, those rows of
// `whole` of the ranks that contribute are added, in order of rank and element by element, so that the bits do not
// depend on the number of ranks, but for that of `together`. Both are f32; the part is split, of part_type() of the
// rows. The result may take the part's place. `tokens` is the axis of the micro-batch whose sums these are, by which
// Executor::set_contributors() finds them. Not differentiable.
[[nodiscard]] ValueId reduce_scatter(Builder& builder, ValueId whole, ValueId part, const RowSlice& rows,
                                     const SumRanks& over, AxisId tokens = kNoAxis);
// Does the same with all rows.
[[nodiscard]] ValueId reduce_scatter(Builder& builder, ValueId whole, ValueId part, int ranks);

}  // namespace spillway::ops
