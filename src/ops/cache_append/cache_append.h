// Writes keys or values of new tokens into the cache of generation.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns the next version of `cache` [C, N] (kCache, f32 or bf16; or its latest version): row rows[t] is row t of x
// [T, N], f32 or bf16, the others stay. rows i32 [T], per token, all different and below C. Takes the place of the
// cache.
[[nodiscard]] ValueId cache_append(Builder& builder, ValueId cache, ValueId x, ValueId rows);

}  // namespace spillway::ops
