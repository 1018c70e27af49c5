// Attention of sequences that neighbouring ranks share: each of them has some tokens, and attends with some heads
// (Jacobs et al., DeepSpeed-Ulysses, 2023).
#pragma once

#include "graph/builder.h"
#include "ops/attention/attention.h"

namespace spillway::ops {

// The ranks that share a stream of tokens. Rank r of each group of `ranks` neighbours has rows [r * T, (r + 1) * T).
struct SharedStream {
  int64_t ranks = 2;
  AxisId whole = kNoAxis;  // of all rows of the stream, `ranks` for each of a rank's
};

// Returns what attention() does for the rows of this rank: o [T, H * S] of its q [T, H * S], k and v [T, K * S], where
// seq_offsets are those of the whole stream, of ranks * T rows or fewer. Rows travel to the ranks that attend with
// their heads, and back: each of the ranks has ceil(H / ranks) query heads, the last ones fewer, over all tokens. Key
// heads that several of them read are sent to each. REQUIRES: 2 <= ranks <= H.
[[nodiscard]] ValueId shared_attention(Builder& builder, ValueId q, ValueId k, ValueId v, ValueId seq_offsets,
                                       const AttentionOptions& options, const SharedStream& stream,
                                       ValueId sinks = kNone);

}  // namespace spillway::ops
