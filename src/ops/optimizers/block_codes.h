// Converts moments to codes and back: in blocks of kStateBlock elements, each as x / absmax, which a code of an
// ascending map stands for. GPU code calls the constexpr functions, too.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/codebook.h"

namespace spillway::ops {

enum class CodeRule : uint8_t {
  // bitsandbytes' GPU kernels (kernels.cu, quantize_2D): the nearest by f32 midpoints, of two that are equally near the
  // even code; below zero always a code below zero's, so that the sign stays. A block of zeros has absmax 0.
  kBitsandbytes,
  // torchao's optim/quant_utils.py: up from half of a step on; absmax is 1e-12 at least.
  kTorchao,
};

constexpr float kMinTorchaoAbsmax = 1e-12F;

// The 16 or 256 values of a map, and the rule by which values are rounded to them. Copied into kernels.
struct BlockCodes {
  const float* values;  // ascending
  int bits;             // 8, or 4: two codes a byte, the first in the high half
  bool is_signed;
  CodeRule rule;

  [[nodiscard]] constexpr int count() const { return 1 << bits; }
};

namespace block_codes_detail {

// Return the next f32 below or above a finite x.
constexpr float step_below(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x == 0) return std::bit_cast<float>(uint32_t{0x80000001});
  return std::bit_cast<float>(x > 0 ? bits - 1 : bits + 1);
}
constexpr float step_above(float x) { return -step_below(-x); }

}  // namespace block_codes_detail

// Returns the largest x whose code is `code` or lower, by a map's values. REQUIRES: code is not the last.
[[nodiscard]] constexpr float upper_bound_of(const float* values, int code, CodeRule rule) {
  using block_codes_detail::step_above, block_codes_detail::step_below;
  const float low = values[code], high = values[code + 1];
  if (rule == CodeRule::kBitsandbytes) {
    if (high == 0) return step_below(0);
    const float middle = (low + high) * 0.5F;
    return code % 2 == 0 ? middle : step_below(middle);
  }
  const float half = (high - low) * 0.5F;
  float bound = low + half;
  while (bound - low < half) bound = step_above(bound);
  while (bound - low >= half) bound = step_below(bound);
  return bound;
}

// The divisor of a block, and its absmax as stored.
struct BlockScale {
  float stored, divisor;
};
[[nodiscard]] constexpr BlockScale block_scale(float absmax, CodeRule rule) {
  if (rule == CodeRule::kTorchao && absmax < kMinTorchaoAbsmax) return {kMinTorchaoAbsmax, kMinTorchaoAbsmax};
  return {absmax, absmax == 0 ? 1.0F : absmax};
}

// The maps of 4 bits of torchao.
inline constexpr std::array<float, 16> kTorchaoSigned4 = {
    -0x1.c66666p-1F, -0x1.533334p-1F, -0x1.cp-2F,     -0x1.b33332p-3F,
    -0x1.3d70a4p-4F, -0x1.0a3d72p-5F, -0x1.6872bp-8F, 0,
    0x1.6872bp-8F,   0x1.0a3d72p-5F,  0x1.3d70a4p-4F, 0x1.b33332p-3F,
    0x1.cp-2F,       0x1.533334p-1F,  0x1.c66666p-1F, 1};
inline constexpr std::array<float, 16> kTorchaoUnsigned4 = {0.0625F, 0.125F, 0.1875F, 0.25F,  0.3125F, 0.375F,
                                                            0.4375F, 0.5F,   0.5625F, 0.625F, 0.6875F, 0.75F,
                                                            0.8125F, 0.875F, 0.9375F, 1.0F};

inline constexpr BlockCodes kBnbSigned{kDynamicSigned.data(), 8, true, CodeRule::kBitsandbytes};
inline constexpr BlockCodes kBnbUnsigned{kDynamicUnsigned.data(), 8, false, CodeRule::kBitsandbytes};
inline constexpr BlockCodes kAoSigned8{kDynamicSigned.data(), 8, true, CodeRule::kTorchao};
inline constexpr BlockCodes kAoUnsigned8{kDynamicUnsigned.data(), 8, false, CodeRule::kTorchao};
inline constexpr BlockCodes kAoSigned4{kTorchaoSigned4.data(), 4, true, CodeRule::kTorchao};
inline constexpr BlockCodes kAoUnsigned4{kTorchaoUnsigned4.data(), 4, false, CodeRule::kTorchao};

// A table for encoding f32 numbers in [-1, 1] in a few instructions, exactly by the bounds: the numbers are cut into
// cells by their sign, exponent and first bits of the fraction, so narrow that no cell has more than one bound in it.
// An entry has the code at the cell's end nearer zero in its low byte, and above that the rest of the last number with
// this code; negative numbers have the complement of their code (`count - 1 - code`), which grows with the magnitude,
// too.
struct EncodeTable {
  int shift;                      // bits below those that choose a cell
  int32_t lowest;                 // the first cell, which has all smaller numbers, too
  int32_t cells;                  // those of one sign; negative numbers' come behind
  std::vector<uint32_t> entries;  // unsigned maps have those of one sign
  std::vector<float> bounds;      // the largest numbers of all codes but the last

  explicit EncodeTable(const BlockCodes& codes);
};
// Returns the table, which is made once; safe from any thread.
[[nodiscard]] const EncodeTable& encode_table(const BlockCodes& codes);

}  // namespace spillway::ops
