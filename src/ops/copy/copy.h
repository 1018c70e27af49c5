// The same bytes in another place: of weights that are read often from where they do not live.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// x, of any dtype, byte for byte.
[[nodiscard]] ValueId copy(Builder& builder, ValueId x);

}  // namespace spillway::ops
