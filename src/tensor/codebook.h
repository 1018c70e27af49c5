// The tables of numbers that codes stand for: NF4, FP4 and E2M1 (weights in 4 bits), and bitsandbytes' dynamic maps (8
// bits: optimizer moments, and the scales of doubly quantised weights). They are multiplied by a block's scale; those
// of bitsandbytes span [-1, 1] or [0, 1], and the scale is the block's absmax. Everything here is constexpr, so that
// GPU code uses it, too; a kernel that looks codes up at run time needs its own copy of a table, in constant or shared
// memory.
//
// Sources: bitsandbytes 0.50 (functional.py create_dynamic_map, kernels.cu) and the QLoRA paper (arXiv 2305.14314);
// dynamic maps: "8-bit Approximations for Parallelism in Deep Learning" (arXiv 1511.04561); E2M1: OCP Microscaling
// Formats 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace spillway {

// The values of NF4 by code, ascending.
inline constexpr std::array<float, 16> kNf4 = {-1.0F,
                                               -0.6961928009986877F,
                                               -0.5250730514526367F,
                                               -0.39491748809814453F,
                                               -0.28444138169288635F,
                                               -0.18477343022823334F,
                                               -0.09105003625154495F,
                                               0.0F,
                                               0.07958029955625534F,
                                               0.16093020141124725F,
                                               0.24611230194568634F,
                                               0.33791524171829224F,
                                               0.44070982933044434F,
                                               0.5626170039176941F,
                                               0.7229568362236023F,
                                               1.0F};
inline constexpr uint8_t kNf4Zero = 7;

// The values of FP4 by code: bit 3 is the sign, and the magnitudes do not ascend. Code 8 is zero once more.
inline constexpr std::array<float, 16> kFp4 = {
    0.0F, 0x1.555556p-8F,  0x1.555556p-1F,  1.0F,  0x1.555556p-2F,  0.5F,  0x1.555556p-3F,  0.25F,
    0.0F, -0x1.555556p-8F, -0x1.555556p-1F, -1.0F, -0x1.555556p-2F, -0.5F, -0x1.555556p-3F, -0.25F};
inline constexpr uint8_t kFp4Zero = 0;
// The values of E2M1 by code, as MXFP4 has them: bit 3 is the sign.
inline constexpr std::array<float, 16> kE2m1 = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
// The codes of FP4 by ascending value; the one of its two zeros that is written.
inline constexpr std::array<uint8_t, 15> kFp4Ascending = {11, 10, 13, 12, 15, 14, 9, 0, 1, 6, 7, 4, 5, 2, 3};

// Returns the midpoints of ascending values: element i lies between values i and i + 1, in f32.
template <size_t kValues>
[[nodiscard]] constexpr std::array<float, kValues - 1> midpoints(const std::array<float, kValues>& values) {
  std::array<float, kValues - 1> result{};
  for (size_t i = 0; i + 1 < kValues; ++i) result[i] = (values[i] + values[i + 1]) * 0.5F;
  return result;
}

namespace codebook_detail {

constexpr std::array<float, 15> ascending_fp4() {
  std::array<float, 15> result{};
  for (size_t i = 0; i < result.size(); ++i) result[i] = kFp4[kFp4Ascending[i]];
  return result;
}

// The positive values of a dynamic map: seven decades, each cut into twice as many equal steps as the one below. The
// products of a step are exact in f64, so that each edge is rounded once, as by a fused multiply-add.
template <size_t kCount>
constexpr std::array<float, kCount> decades(int lowest_steps) {
  constexpr std::array<float, 7> kScales = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1.0F};
  std::array<float, kCount> result{};
  size_t count = 0;
  int steps = lowest_steps;
  for (const float scale : kScales) {
    const float step = (1.0F - 0.1F) / static_cast<float>(steps);
    const auto edge = [&](int k) {
      return k < (steps + 1) / 2 ? static_cast<float>(double{step} * k + double{0.1F})
                                 : static_cast<float>(1.0 - double{step} * (steps - k));
    };
    for (int k = 0; k < steps; ++k) result[count++] = scale * ((edge(k) + edge(k + 1)) * 0.5F);
    steps *= 2;
  }
  return result;
}

constexpr std::array<float, 256> signed_map() {
  constexpr auto kPositive = decades<127>(1);
  std::array<float, 256> result{};
  for (size_t i = 0; i < kPositive.size(); ++i) {
    result[126 - i] = -kPositive[i];
    result[128 + i] = kPositive[i];
  }
  result[255] = 1.0F;
  return result;
}

constexpr std::array<float, 256> unsigned_map() {
  constexpr auto kPositive = decades<254>(2);
  std::array<float, 256> result{};
  for (size_t i = 0; i < kPositive.size(); ++i) result[1 + i] = kPositive[i];
  result[255] = 1.0F;
  return result;
}

}  // namespace codebook_detail

inline constexpr std::array<float, 15> kNf4Midpoints = midpoints(kNf4);
// The midpoints of the values of kFp4Ascending.
inline constexpr std::array<float, 14> kFp4Midpoints = midpoints(codebook_detail::ascending_fp4());

// The dynamic maps by code, ascending. Zero is code 127 of the signed one, 0 of the unsigned one; -1 is no value.
inline constexpr std::array<float, 256> kDynamicSigned = codebook_detail::signed_map();
inline constexpr std::array<float, 256> kDynamicUnsigned = codebook_detail::unsigned_map();
inline constexpr std::array<float, 255> kDynamicSignedMidpoints = midpoints(kDynamicSigned);
inline constexpr std::array<float, 255> kDynamicUnsignedMidpoints = midpoints(kDynamicUnsigned);

// Returns the code of the nearest of 256 ascending values, given their midpoints; of two equally near codes the even
// one, as in the binary search of bitsandbytes' kernels. Numbers outside get the outermost value, NaN gets code 0.
[[nodiscard]] constexpr uint8_t nearest_code(const float* midpoints_of_map, float x) {
  int code = 0;
  // The codes that a step of 2 or more tells apart are an odd and an even one; the even one is above.
  for (int step = 128; step > 1; step /= 2) code += step * static_cast<int>(x >= midpoints_of_map[code + step - 1]);
  code += static_cast<int>(x > midpoints_of_map[code]);
  return static_cast<uint8_t>(code);
}

}  // namespace spillway
