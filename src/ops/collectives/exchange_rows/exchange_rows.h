// Rows that the ranks of a group give each other.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns a value of the type of x [ranks * T, ...]: rows [r * T, (r + 1) * T) of x go to rank r of this rank's group
// of `ranks` neighbours, and the same rows of the result are those that it has given to this one (an all-to-all). Its
// gradient is the same of the cotangent. REQUIRES: ranks >= 2 divides the rows; T is alike on all ranks of the job.
[[nodiscard]] ValueId exchange_rows(Builder& builder, ValueId x, int64_t ranks);

}  // namespace spillway::ops
