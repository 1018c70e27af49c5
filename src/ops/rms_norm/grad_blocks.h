// The workspace of the norm's gradient on a GPU: partial sums for the weight.
#pragma once

#include <cstdint>

namespace spillway::ops {

// The number of partial sums of the weight's gradient on the GPU: two blocks for each multiprocessor of a large one.
constexpr int64_t kMaxGradBlocks = 256;

// Returns the bytes of those sums, f32 [kMaxGradBlocks, group].
[[nodiscard]] constexpr int64_t grad_blocks_bytes(int64_t group) {
  return kMaxGradBlocks * group * static_cast<int64_t>(sizeof(float));
}

}  // namespace spillway::ops
