// Copies the same bytes to another place, for weights that are read often but live elsewhere.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns x, of any dtype, byte for byte.
[[nodiscard]] ValueId copy(Builder& builder, ValueId x);

}  // namespace spillway::ops
