// The functions that decode a range of a weight on the CPU, one for each kind of codes.
#pragma once

#include "ops/quantised_matmul/quantised_weight.h"

namespace spillway::ops {

// Rounds elements to the weight's dtype, then to `elements`, and writes them as `dtype`, which is `elements` or f32: a
// product that widens bf16 gets f32 numbers that bf16 can hold.
using DecodeFunction = void(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType elements, DType dtype,
                            int64_t stride, void* out);
DecodeFunction decode_four_bit, decode_eight_bit;

inline constexpr float kInt8Step = 1.0f / 127.0f;  // the step of an i8, as a share of a row's scale

// The range of scales in which all elements are zero or normal numbers.
inline constexpr float kMinScale = 0x1p-100F, kMaxScale = 0x1p100F;

// Writes the scales of `count` blocks from `first` on, decoded, to out. Returns false if one is neither zero nor
// between kMinScale and kMaxScale.
bool four_bit_scales(const QuantisedWeight& weight, int64_t first, int64_t count, float* out);

// Prefetches the `bytes` that lie some rows of `row_bytes` further on: the CPU sees no pattern in pieces of rows.
inline void prefetch_rows(const void* from, int64_t row_bytes, int64_t bytes) {
  constexpr int64_t kAhead = 16, kLine = 64;
  if (bytes == row_bytes) return;
  const char* const ahead = static_cast<const char*>(from) + kAhead * row_bytes;
  for (int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(ahead + at);
}

}  // namespace spillway::ops
