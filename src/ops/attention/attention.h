// Attention of packed sequences, causal or not, to themselves or to those of another stream, with grouped heads.
//
// Scores exist only as tiles in the workspace, forward and backward (Dao, FlashAttention-2, 2023).
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

struct AttentionOptions {
  int64_t heads = 0;             // H, of queries
  int64_t kv_heads = 0;          // K, divides H: query heads [i * H / K, (i + 1) * H / K) share key head i
  int64_t head_size = 0;         // S
  int64_t sliding_window = 0;    // transformers' meaning: token i sees key j where i - j < window; 0: no window
  double scale = 1;              // of the scores; usually 1 / sqrt(S)
  int64_t sequence_len = 0;      // of a usual sequence, for the predicted cost alone; 0: the whole stream
  bool causal = true;            // false: token i sees all of its sequence; without a window
  int64_t key_sequence_len = 0;  // as sequence_len, of the keys of another stream
  // Above 0: a scaled score s becomes soft_cap * tanh(s / soft_cap), which stays within it (Gemma 2).
  double soft_cap = 0;
};

// Returns o [T, H * S] in the dtype of q. q [T, H * S], k and v [T, K * S], all f32 or all bf16. Token i sees the
// tokens of its own sequence up to itself, or, if not causal, all of them. seq_offsets i32 [max_sequences + 1]:
// sequence s is [seq_offsets[s], seq_offsets[s + 1]); unused entries equal the length of the stream. Scores and sums
// are f32. `sinks` [H], f32 or bf16, may be absent: a logit that joins each softmax's denominator and takes no value
// (gpt-oss). The second output, lse f32 [T, H], the logarithm of each softmax's denominator, is for the backward.
[[nodiscard]] ValueId attention(Builder& builder, ValueId q, ValueId k, ValueId v, ValueId seq_offsets,
                                const AttentionOptions& options, ValueId sinks = kNone);

// Does the same with k and v [U, K * S] of another stream, along any axis or none: token i of sequence s sees all of
// [key_offsets[s], key_offsets[s + 1]). key_offsets i32 [max_sequences + 1], as many as seq_offsets. A token whose
// sequence has no keys gets zeros; so do the gradients of keys that no token sees. REQUIRES: options.causal is false.
[[nodiscard]] ValueId cross_attention(Builder& builder, ValueId q, ValueId k, ValueId v, ValueId seq_offsets,
                                      ValueId key_offsets, const AttentionOptions& options, ValueId sinks = kNone);

}  // namespace spillway::ops
