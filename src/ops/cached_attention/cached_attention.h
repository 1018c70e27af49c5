// Attention of new tokens on all that a cache holds, for generation.
#pragma once

#include "ops/attention/attention.h"

namespace spillway::ops {

// o [T, H * S]. q [T, H * S]: token t has position start + t and sees cached rows [0, start + t], or those inside the
// sliding window. k_cache, v_cache [C, K * S], which hold the new tokens already; all f32 or all bf16. start i32 [1],
// with start + T <= C. Not differentiable.
[[nodiscard]] ValueId cached_attention(Builder& builder, ValueId q, ValueId k_cache, ValueId v_cache, ValueId start,
                                       const AttentionOptions& options);

}  // namespace spillway::ops
