// Attention while decoding: a new token of each of many sequences sees its sequence's rows of a cache.
//
// It is bound by memory, and by latency if sequences are few or short. The keys that a token sees are cut into parts,
// so that one token keeps the whole GPU busy; each part has a maximum, a sum and a weighted sum of values, which a
// second kernel joins in their order (as Dao et al., "Flash-Decoding", 2023). The cut depends on the number of a
// token's keys alone: its bits do not depend on the other tokens.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/attention/cuda/kernels.h"

namespace spillway::cuda {

struct DecodeParts {
  static constexpr int kMaxParts = 16;  // of a token
  static constexpr int kKeys = 64;      // a part has a multiple of so many, the last part of a token excepted

  // Returns the workspace: for each token, head and part a maximum and a sum, then the weighted values, all f32.
  [[nodiscard]] static int64_t bytes(int64_t tokens, int64_t heads, int64_t head_size) {
    return tokens * heads * kMaxParts * (head_size + 2) * static_cast<int64_t>(sizeof(float));
  }
};

// Writes o. A token is the only one of its sequence. Throws InputError
// if the head is too large. REQUIRES: the workspace has DecodeParts::bytes().
void attention_decode(const AttentionArgs& args, std::byte* workspace, void* stream);

}  // namespace spillway::cuda
