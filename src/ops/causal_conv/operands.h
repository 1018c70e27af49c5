// The operands of causal convolutions, and the tokens that a token's sum takes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/kernel.h"
#include "ops/optimizers/either_side.h"
#include "ops/sequence_rows.h"

namespace spillway::ops {

namespace causal_conv_op {
// causal_conv has the first four, its gradient all of them. The addends are those of dw and db; each may be absent.
enum Input : int { kX, kWeight, kBias, kSeqOffsets, kDy, kWeightAddend, kBiasAddend };
}  // namespace causal_conv_op

namespace cached_causal_conv_op {
enum Input : int { kX, kWeight, kBias, kState, kSlots, kPositions };
}

// The tokens of a stream that is divided into sequences.
struct ConvTokens {
  SequenceRows sequences;
  int32_t tokens, taps;

  // `sequences`: seq_offsets.
  ConvTokens(const TensorView& offsets, const TensorView& x, int64_t taps_of_weight)
      : sequences(offsets), tokens(static_cast<int32_t>(x.shape[0])), taps(static_cast<int32_t>(taps_of_weight)) {}

  // Returns how many of the tokens up to this one, and how many of those from it on, share a sum with it; at least 1.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int32_t before(int64_t token) const {
    const int64_t sequence = sequence_of_row(sequences.offsets, sequences.sequences, token);
    return sequence < 0 ? 1 : at_most_taps(token + 1 - sequences.offsets[sequence]);
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int32_t behind(int64_t token) const {
    const int64_t sequence = sequence_of_row(sequences.offsets, sequences.sequences, token);
    return sequence < 0 ? 1 : at_most_taps(sequences.offsets[sequence + 1] - token);
  }

 private:
  [[nodiscard]] SPILLWAY_EITHER_SIDE int32_t at_most_taps(int64_t count) const {
    return count < taps ? static_cast<int32_t>(count) : taps;
  }
};

// New tokens of sequences whose last tokens are in a state.
struct CachedConvTokens {
  const int32_t *slots, *positions;
  int32_t tokens, taps;

  explicit CachedConvTokens(const KernelArgs& args)
      : slots(args.inputs[cached_causal_conv_op::kSlots].as<int32_t>()),
        positions(args.inputs[cached_causal_conv_op::kPositions].as<int32_t>()),
        tokens(static_cast<int32_t>(args.inputs[cached_causal_conv_op::kX].shape[0])),
        taps(static_cast<int32_t>(args.inputs[cached_causal_conv_op::kWeight].shape[1])) {}

  [[nodiscard]] SPILLWAY_EITHER_SIDE int32_t before(int64_t token) const {
    return positions[token] + 1 < taps ? positions[token] + 1 : taps;
  }
  // Returns true if the token that stands `back` places before this one in its sequence is in the stream, too.
  [[nodiscard]] SPILLWAY_EITHER_SIDE bool is_in_stream(int64_t token, int32_t back) const {
    return are_apart(token - back, token, back);
  }
  // Returns true if no later token of the stream takes this one's part of the state.
  [[nodiscard]] SPILLWAY_EITHER_SIDE bool stays(int64_t token) const {
    return !are_apart(token, token + taps - 1, taps - 1);
  }
  // Returns the part of the row of the state, of taps - 1, that has the token `back` places before this one.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t part(int64_t token, int32_t back) const {
    return int64_t{slots[token]} * (taps - 1) + (positions[token] - back) % (taps - 1);
  }

 private:
  [[nodiscard]] SPILLWAY_EITHER_SIDE bool are_apart(int64_t early, int64_t late, int32_t places) const {
    return early >= 0 && late < tokens && slots[early] == slots[late] && positions[late] - positions[early] == places;
  }
};

}  // namespace spillway::ops
