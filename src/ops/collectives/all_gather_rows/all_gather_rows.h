// Rows of a tensor of which each rank has a part, put into the tensor that all ranks have whole.
#pragma once

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// Returns the next version of `whole`, with some rows replaced by those whose parts the ranks have: `part`, split, is
// of part_type() of the rows. The result may take the place of `whole`. Not differentiable. REQUIRES: ranks >= 2.
[[nodiscard]] ValueId all_gather_rows(Builder& builder, ValueId part, ValueId whole, const RowSlice& rows, int ranks);

}  // namespace spillway::ops
