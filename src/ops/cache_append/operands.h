// The operands of cache_append.
#pragma once

namespace spillway::ops::cache_append_op {

enum Input : int { kCache, kX, kRows };

}  // namespace spillway::ops::cache_append_op
