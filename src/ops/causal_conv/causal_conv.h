// Depthwise causal convolutions of few taps: each channel of a token is a weighted sum of that channel of the token and
// of those right before it. They mix neighbours in decoders whose layers have a state (LFM2, Mamba, gated delta rule).
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// The most taps of a convolution; models have 3 or 4.
constexpr int64_t kMaxTaps = 8;

//   x            [T, C] f32 or bf16, per token
//   weight       [C, K] f32 or bf16, 2 <= K <= kMaxTaps; the last column is a token's own
//   bias         [C] of the weight's dtype; kNone: 0
//   seq_offsets  i32 [max_sequences + 1]: sequence s is [seq_offsets[s], seq_offsets[s + 1]); unused entries repeat the
//                length of the stream
//
// Returns y of x's type: y[t, c] = bias[c] + sum over j < K of weight[c, K - 1 - j] x[t - j, c], where x is zero before
// the first token of t's sequence. Sums are f32, the bias first and then from the token back; y is rounded once, and a
// sequence has the same bits alone and among others. Has gradients of x, weight and bias. Throws InputError for other
// shapes.
[[nodiscard]] ValueId causal_conv(Builder& builder, ValueId x, ValueId weight, ValueId bias, ValueId seq_offsets);

// Where the new tokens of sequences go on, in generation.
struct ConvState {
  ValueId rows = kNone;       // [S, (K - 1) C] of x's dtype, ValueKind::kCache: for each sequence its last tokens
  ValueId slots = kNone;      // i32 [T]: the row of each token's sequence
  ValueId positions = kNone;  // i32 [T]: each token's place in its sequence
};

struct CachedConv {
  ValueId y = kNone, rows = kNone;  // of the state
};

// Returns what causal_conv would return for the tokens x as parts of their sequences, bit for bit, and updates the
// state. The token at position p of a sequence leaves x as part p mod (K - 1) of its row, so that position 0 needs no
// cleared row. No gradient. REQUIRES: the tokens of a sequence follow each other in the stream, as in the sequence; all
// tokens before them went through the same state.
[[nodiscard]] CachedConv cached_causal_conv(Builder& builder, ValueId x, ValueId weight, ValueId bias,
                                            const ConvState& state);

}  // namespace spillway::ops
