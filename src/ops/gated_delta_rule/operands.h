// The operands of the gated delta rule, and the sizes that its kernels go by.
#pragma once

#include <cstdint>

#include "backend/kernel.h"
#include "base/math.h"
#include "ops/optimizers/either_side.h"
#include "ops/sequence_chunks.h"

namespace spillway::ops {

namespace gated_delta_rule_op {
// gated_delta_rule has the first four, its gradient all of them.
enum Input : int { kQkv, kDecay, kBeta, kSeqOffsets, kDy };
}  // namespace gated_delta_rule_op

namespace cached_gated_delta_rule_op {
enum Input : int { kQkv, kDecay, kBeta, kState, kSlots, kPositions };
}

// Tokens that are computed together, from the beginning of each sequence on.
constexpr int64_t kDeltaChunk = kSequenceChunk;
// Added to the sum of the squares of a query or a key, so that none divides by zero.
constexpr float kDeltaEps = 1e-6f;

struct DeltaSizes {
  int64_t key_heads, value_heads, key_dim, value_dim;
  bool corrects;  // StateRule::kCorrects

  explicit DeltaSizes(const Attributes& attributes)
      : key_heads(attributes.integer("key_heads")),
        value_heads(attributes.integer("value_heads")),
        key_dim(attributes.integer("key_dim")),
        value_dim(attributes.integer("value_dim")),
        corrects(attributes.integer_or("adds", 0) == 0) {}

  // The value heads of a key head.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t group() const { return value_heads / key_heads; }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t columns() const {
    return 2 * key_heads * key_dim + value_heads * value_dim;
  }
  // Return the elements at which the parts of a row of qkv begin.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t query_at(int64_t key_head) const {
    return (corrects ? 0 : value_heads * value_dim + key_heads * key_dim) + key_head * key_dim;
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t key_at(int64_t key_head) const {
    return (corrects ? key_heads * key_dim : value_heads * value_dim) + key_head * key_dim;
  }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t value_at(int64_t value_head) const {
    return (corrects ? 2 * key_heads * key_dim : 0) + value_head * value_dim;
  }
  // The columns of scratch matrices: whole vectors.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t key_width() const { return (key_dim + 15) / 16 * 16; }
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t value_width() const { return (value_dim + 15) / 16 * 16; }
  // The elements of a head's state in scratch, [key_dim, value_width].
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t state_floats() const { return key_dim * value_width(); }
};

using DeltaSequences = ChunkedSequences;

// Returns the floats of the states that the gradient keeps.
[[nodiscard]] inline int64_t kept_state_floats(const DeltaSizes& sizes, int64_t tokens) {
  return tokens / kDeltaChunk * sizes.value_heads * sizes.state_floats();
}

}  // namespace spillway::ops
