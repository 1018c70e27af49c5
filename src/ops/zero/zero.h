// Clearing of an accumulator.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Zeros of x's type. May take x's place; x is read by nobody else afterwards.
[[nodiscard]] ValueId zero(Builder& builder, ValueId x);

}  // namespace spillway::ops
