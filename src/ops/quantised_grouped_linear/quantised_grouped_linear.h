// Linear layers of experts whose weights are kept as codes. No weight exists as a whole: the kernels decode the tiles
// of a product.
#pragma once

#include <cstdint>

#include "graph/builder.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/quantised_matmul/quantised_matmul.h"

namespace spillway::ops {

// Returns what grouped_linear() does with the decoded weights in the dtype of x, bit for bit. `weights` lists the parts
// of each expert's weight, one expert's after the other's. They have no gradient.
[[nodiscard]] ValueId quantised_grouped_linear(Builder& builder, ValueId x, ValueId offsets, int64_t pairs_per_token,
                                               const QuantisedOperand& weights,
                                               const GroupedLinearOptions& options = {});

}  // namespace spillway::ops
