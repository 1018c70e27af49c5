// The order in which squared_norm adds, which is the same on every device and with every instruction set:
//
// 1. Blocks hold kNormBlockElems elements, the last one the rest. Sum j of kNormBlockSums takes the squares of a
//    block's elements j, j + kNormBlockSums, ... one after another, in f32; a square is rounded before it is added.
// 2. Of these sums, halves are added until one is left (add_halves).
// 3. The sums of blocks go the same way, in f64 and to kNormTotalSums sums.
#pragma once

#include <algorithm>
#include <cstdint>

namespace spillway::ops {

constexpr int64_t kNormBlockElems = 4096;
constexpr int kNormBlockSums = 256;
constexpr int kNormTotalSums = 1024;

// Computes sums[i] += sums[i + n / 2] for n = kCount, kCount / 2, ... until kLeft are left; both are powers of two.
template <int kCount, int kLeft = 1, typename T>
constexpr void add_halves(T* sums) {
  constexpr int kHalf = kCount / 2;
  if constexpr (kHalf >= kLeft) {
    for (int i = 0; i < kHalf; ++i) sums[i] += sums[i + kHalf];
    add_halves<kHalf, kLeft>(sums);
  }
}

// Does step 3, for `count` sums.
template <typename T>
double total_of(const T* partial, int64_t count) {
  double sums[kNormTotalSums] = {};
  for (int64_t row = 0; row < count; row += kNormTotalSums) {
    const int64_t width = std::min<int64_t>(kNormTotalSums, count - row);
    for (int64_t i = 0; i < width; ++i) sums[i] += partial[row + i];
  }
  add_halves<kNormTotalSums>(sums);
  return sums[0];
}

}  // namespace spillway::ops
