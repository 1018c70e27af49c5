// The workspace of decode_attention on the CPU.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "ops/attention/attention.h"

namespace spillway::ops {

constexpr int64_t kDecodeKeys = 64;  // of a tile; part of the numerics: a row's sums are added up tile by tile

struct DecodeSizes {
  int64_t heads, kv_heads, head_size, group;
  int64_t width;  // head_size, rounded up to pairs of whole vectors of any instruction set

  // Takes AttentionOptions, or AttentionArgs.
  template <typename Sizes>
  explicit DecodeSizes(const Sizes& sizes)
      : heads(sizes.heads),
        kv_heads(sizes.kv_heads),
        head_size(sizes.head_size),
        group(heads / kv_heads),
        width(align_up(head_size, 32)) {}

  // Returns the floats of one thread: queries and sums, scores, and two numbers per query head.
  [[nodiscard]] int64_t thread_floats() const {
    return 2 * group * width + group * kDecodeKeys + align_up(2 * group, 16);
  }
};

}  // namespace spillway::ops
