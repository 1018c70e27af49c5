// The sum of all ranks' tensors, of which each rank keeps its part.
#pragma once

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// Returns the next version of `part`, this rank's part of a sum over some rows of a tensor: to it, those rows of
// `whole` of the ranks that contribute are added, in order of rank and element by element, so that the bits do not
// depend on the number of ranks. Both are f32; the part is split, of part_type() of the rows. The result may take the
// part's place. `copies` groups of so many ranks have each part. `tokens` is the axis of the micro-batch whose sums
// these are, by which Executor::set_contributors() finds them. Not differentiable. REQUIRES: ranks >= 2.
[[nodiscard]] ValueId reduce_scatter(Builder& builder, ValueId whole, ValueId part, const RowSlice& rows, int ranks,
                                     int copies = 1, AxisId tokens = kNoAxis);
// Does the same with all rows.
[[nodiscard]] ValueId reduce_scatter(Builder& builder, ValueId whole, ValueId part, int ranks);

}  // namespace spillway::ops
