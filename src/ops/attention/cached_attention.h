// Attention of new tokens on a cache of keys and values that several sequences share, for generation.
//
// Each sequence has consecutive rows of the cache, which are given token by token: `first` is the row of the sequence's
// first token, `own` that of the token itself, which sees rows [first, own], or those of them inside the sliding
// window. A token's bits depend on its own sequence only: neither on the other tokens of the stream nor, if sequences
// start at multiples of kCacheRowAlign, on their position in the cache.
#pragma once

#include "ops/attention/attention.h"

namespace spillway::ops {

constexpr int64_t kCacheRowAlign = 64;  // of the GPU's largest tile of keys

struct CacheOperands {
  ValueId keys = kNone, values = kNone;  // [C, K * S], which hold the new tokens already
  ValueId first = kNone, own = kNone;    // i32 [T], per token: rows below C
};

// Returns o [T, H * S]. q [T, H * S]; q and cache are all f32 or all bf16. For prompts: tokens of one sequence stand
// together, in their order. `sinks` are as in attention(). Not differentiable.
[[nodiscard]] ValueId cached_attention(Builder& builder, ValueId q, const CacheOperands& cache,
                                       const AttentionOptions& options, ValueId sinks = kNone);

// Does the same for streams in which every token is of another sequence: bound by reading the cache. The two differ in
// the last bits.
[[nodiscard]] ValueId decode_attention(Builder& builder, ValueId q, const CacheOperands& cache,
                                       const AttentionOptions& options, ValueId sinks = kNone);

}  // namespace spillway::ops
