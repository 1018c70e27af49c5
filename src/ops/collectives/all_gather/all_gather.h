// A tensor of which each rank has a part, whole on all of them.
#pragma once

#include "graph/builder.h"
#include "tensor/cut.h"

namespace spillway::ops {

// Returns the tensor of that shape whose parts the ranks have: `part`, split, is of part_type() with that unit. Not
// differentiable. REQUIRES: ranks >= 2.
[[nodiscard]] ValueId all_gather(Builder& builder, ValueId part, const Shape& shape, int ranks,
                                 int64_t unit = kCutBlock);

// Returns the operation alone, without outputs, for a graph that exists.
[[nodiscard]] Operation all_gather_operation(ValueId part, const Shape& shape, int ranks);

}  // namespace spillway::ops
