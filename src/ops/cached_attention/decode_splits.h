// How the GPU's kernel for few tokens cuts a cache, so that one token keeps the whole GPU busy.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"

namespace spillway::ops {

struct DecodeSplits {
  static constexpr int64_t kMaxTokens = 15;  // more go through tiles, see backend/cuda/attention_kernels.h
  static constexpr int64_t kMinKeys = 128;
  static constexpr int64_t kMax = 16;

  int64_t tokens, count;  // of parts for each token and head

  DecodeSplits(int64_t all_tokens, int64_t capacity)
      : tokens(std::min(all_tokens, kMaxTokens)), count(std::clamp<int64_t>(div_ceil(capacity, kMinKeys), 1, kMax)) {}

  // Of the workspace: for each part its maximum, its sum, and its weighted sum of values, all f32.
  [[nodiscard]] int64_t bytes(int64_t heads, int64_t head_size) const {
    return tokens * heads * count * (head_size + 2) * static_cast<int64_t>(sizeof(float));
  }
};

}  // namespace spillway::ops
