// The selective scan of Mamba: each channel keeps a vector that forgets at rates of its own, and by steps that follow
// from the token (Gu and Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces, 2023, section 3).
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// The most numbers of a channel's state; models have 16.
constexpr int64_t kMaxScanState = 256;

// The operands of a scan: what it reads of the tokens, and the rates of the states.
struct ScanOperands {
  ValueId x = kNone;      // [T, D] f32 or bf16, per token: what channels add to their states
  ValueId steps = kNone;  // [T, D] of x's dtype, per token, before the softplus that makes time steps of them
  ValueId rates = kNone;  // f32 [D, N], 1 <= N <= kMaxScanState: how fast each number of a state is forgotten
  ValueId b = kNone;      // [T, N] of x's dtype, per token: what x is multiplied by on its way in
  ValueId c = kNone;      // [T, N] of x's dtype, per token: what states are multiplied by on their way out
};

//   seq_offsets  i32 [max_sequences + 1]: sequence s is [seq_offsets[s], seq_offsets[s + 1]); unused entries repeat the
//                length of the stream
//
// Returns y of x's type: for each channel d, with its state S [N], zero before each sequence, and its step
// s = log(1 + exp(steps)),
//   S <- exp(-s rates) S + s x b;  y = S . c.
// All is computed in f32, token by token, so that a sequence has the same bits alone and among others, and y is rounded
// once. Has gradients of all operands, summed in f32; they compute the states anew, from those between chunks of 64
// tokens. Throws InputError for other shapes. REQUIRES: rates >= 0.
[[nodiscard]] ValueId selective_scan(Builder& builder, const ScanOperands& operands, ValueId seq_offsets);

// Where the new tokens of sequences go on, in generation.
struct ScanState {
  ValueId rows = kNone;       // f32 [S, N D], ValueKind::kCache: the states of each sequence
  ValueId slots = kNone;      // i32 [T]: the row of each token's sequence
  ValueId positions = kNone;  // i32 [T]: each token's place in its sequence
};

struct CachedScan {
  ValueId y = kNone, rows = kNone;  // of the state
};

// Returns what selective_scan would return for these tokens as parts of their sequences, bit for bit, and updates the
// state. The state is zero at position 0, whatever its row holds. No gradient. REQUIRES: the tokens of a sequence
// follow each other in the stream, as in the sequence; all tokens before them went through the same state.
[[nodiscard]] CachedScan cached_selective_scan(Builder& builder, const ScanOperands& operands, const ScanState& state);

}  // namespace spillway::ops
