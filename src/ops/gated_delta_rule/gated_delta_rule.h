// The gated delta rule: linear attention whose heads keep a matrix that forgets, and that corrects what it holds under
// a key instead of adding to it (Yang et al., Gated Delta Networks, 2024). And the rule that does add: the selective
// state space of Mamba-2 (Dao and Gu, Transformers are SSMs, 2024).
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Says what a token does to the matrix of a head.
enum class StateRule : uint8_t {
  kCorrects,  // the gated delta rule
  kAdds,      // Mamba-2: B are keys, C queries, x values, the time steps are beta, and these times A the decay
};

struct DeltaHeads {
  int64_t key_heads = 0, value_heads = 0;  // each key head serves value_heads / key_heads value heads, its neighbours
  int64_t key_dim = 0, value_dim = 0;      // of a head, at most kMaxDeltaDim
  StateRule rule = StateRule::kCorrects;
};
constexpr int64_t kMaxDeltaDim = 256;

//   qkv          [T, 2 key_heads key_dim + value_heads value_dim] f32 or bf16, per token: queries, keys, values; of a
//                rule that adds values, keys, queries, as Mamba-2's convolution has them
//   decay        f32 [T, value_heads], per token: logarithms of factors of the state, at most 0
//   beta         f32 [T, value_heads], per token: the share of the old value under the key that a token replaces
//   seq_offsets  i32 [max_sequences + 1]: sequence s is [seq_offsets[s], seq_offsets[s + 1]); unused entries repeat the
//                length of the stream
//
// Returns [T, value_heads value_dim] of qkv's dtype: for each value head, with its state S [key_dim, value_dim], zero
// before each sequence,
//   S <- exp(decay) S;  S <- S + k (beta (v - S^T k))^T;  y = S^T q,
// where keys are divided by sqrt(sum k^2 + 1e-6), and queries likewise and by sqrt(key_dim). A rule that adds has
// S <- S + k (beta v)^T, and queries and keys as they are. All is computed in f32,
// over chunks of 64 tokens that are counted from the beginning of each sequence, so that a sequence has the same bits
// alone and among others, and y is rounded once. Has gradients of qkv, decay and beta; they compute the states anew.
// Throws InputError for other shapes. REQUIRES: decay <= 0.
[[nodiscard]] ValueId gated_delta_rule(Builder& builder, ValueId qkv, ValueId decay, ValueId beta, ValueId seq_offsets,
                                       const DeltaHeads& heads);

// Where the new tokens of sequences go on, in generation.
struct DeltaState {
  ValueId rows = kNone;       // f32 [S, value_heads key_dim value_dim], ValueKind::kCache: the states of each sequence
  ValueId slots = kNone;      // i32 [T]: the row of each token's sequence
  ValueId positions = kNone;  // i32 [T]: each token's place in its sequence
};

struct CachedDelta {
  ValueId y = kNone, rows = kNone;  // of the state
};

// Returns what gated_delta_rule would return for these tokens as parts of their sequences, up to rounding, and updates
// the state: token by token, so that the bits of a sequence depend on no cut and on no other sequence. The state is
// zero at position 0, whatever its row holds. No gradient. REQUIRES: the tokens of a sequence follow each other in the
// stream, as in the sequence; all tokens before them went through the same state.
[[nodiscard]] CachedDelta cached_gated_delta_rule(Builder& builder, ValueId qkv, ValueId decay, ValueId beta,
                                                  const DeltaState& state, const DeltaHeads& heads);

}  // namespace spillway::ops
