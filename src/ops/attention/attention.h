// Causal attention of packed sequences, with grouped heads.
//
// Scores exist only as tiles in the workspace, forward and backward (Dao, FlashAttention-2, 2023).
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

struct AttentionOptions {
  int64_t heads = 0;           // H, of queries
  int64_t kv_heads = 0;        // K, divides H: query heads [i * H / K, (i + 1) * H / K) share key head i
  int64_t head_size = 0;       // S
  int64_t sliding_window = 0;  // transformers' meaning: token i sees key j where i - j < window; 0: no window
  double scale = 1;            // of the scores; usually 1 / sqrt(S)
  int64_t sequence_len = 0;    // of a usual sequence, for the predicted cost alone; 0: the whole stream
};

// o [T, H * S] in the dtype of q. q [T, H * S], k and v [T, K * S], all f32 or all bf16. Token i sees the tokens of its
// own sequence up to itself. seq_offsets i32 [max_sequences + 1]: sequence s is [seq_offsets[s], seq_offsets[s + 1]);
// entries that are not used equal the length of the stream. Scores and sums are f32. The second output, lse f32 [T, H],
// the logarithm of each softmax's denominator, is for the backward.
[[nodiscard]] ValueId attention(Builder& builder, ValueId q, ValueId k, ValueId v, ValueId seq_offsets,
                                const AttentionOptions& options);

}  // namespace spillway::ops
