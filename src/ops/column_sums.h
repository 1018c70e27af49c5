// Sums over the rows of a tensor, for gradients of operands that all rows share: rows are cut into blocks whose number
// and size depend on the rows alone, each block is summed by one thread, and the blocks are added up in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"

namespace spillway::ops {

constexpr int64_t kMaxRowBlocks = 64;
constexpr int64_t kMinBlockRows = 16;

// Uses a copy of the constant, since std::max takes references, and a constant of the host has no address in a kernel:
// nvcc compiles a trap.
[[nodiscard]] constexpr int64_t rows_of_block(int64_t rows) {
  return std::max(int64_t{kMinBlockRows}, div_ceil(rows, kMaxRowBlocks));
}

// Returns the bytes of the partial sums, f32 [kMaxRowBlocks, columns].
[[nodiscard]] constexpr int64_t column_sums_bytes(int64_t columns) {
  return kMaxRowBlocks * columns * static_cast<int64_t>(sizeof(float));
}

}  // namespace spillway::ops
