// Keys or values of new tokens written into the cache of generation.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// The next version of `cache` [C, N] (kCache, f32 or bf16; or its latest version): rows [start, start + T) are those of
// x [T, N], f32 or bf16, the others stay. start i32 [1], with start + T <= C. Takes the place of the cache.
[[nodiscard]] ValueId cache_append(Builder& builder, ValueId cache, ValueId x, ValueId start);

}  // namespace spillway::ops
