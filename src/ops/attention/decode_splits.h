// The workspace of the GPU's kernel for decoding, which cuts what a token sees into parts, so that one token keeps the
// whole GPU busy.
#pragma once

#include <cstdint>

namespace spillway::ops {

struct DecodeSplits {
  // Of parts for each token and head, whatever the cache: part of the numerics.
  static constexpr int64_t kCount = 16;

  // For each part its maximum, its sum, and its weighted sum of values, all f32.
  [[nodiscard]] static int64_t bytes(int64_t tokens, int64_t heads, int64_t head_size) {
    return tokens * heads * kCount * (head_size + 2) * static_cast<int64_t>(sizeof(float));
  }
};

}  // namespace spillway::ops
