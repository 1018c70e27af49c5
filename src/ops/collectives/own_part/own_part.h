// The part of a tensor that all ranks have whole.
#pragma once

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

// Returns this rank's part of some rows of `whole`, which is the same on all ranks: split, of part_type() of the rows,
// with zeros behind a part that is shorter. Sends nothing; it is a collective because a rank's number decides what it
// does. Not differentiable. REQUIRES: ranks >= 2.
[[nodiscard]] ValueId own_part(Builder& builder, ValueId whole, const RowSlice& rows, int ranks);

}  // namespace spillway::ops
