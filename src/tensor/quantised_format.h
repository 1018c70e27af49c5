// The formats of weights kept as codes: bitsandbytes' formats of 4 and 8 bits, and MXFP4 of the Open Compute Project
// (OCP Microscaling Formats, version 1.0), as gpt-oss's files have it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/index.h"
#include "base/math.h"
#include "tensor/dtype.h"

namespace spillway {

enum class WeightCoding : uint8_t { kNf4, kFp4, kInt8, kMxfp4 };

// The names of bitsandbytes' codings, by code.
inline constexpr std::array<std::string_view, 3> kWeightCodings = {"nf4", "fp4", "int8"};
[[nodiscard]] constexpr std::string_view name_of(WeightCoding coding) {
  return coding == WeightCoding::kMxfp4 ? "mxfp4" : nth(kWeightCodings, coding);
}
// Returns nullopt if no coding of bitsandbytes has that name.
[[nodiscard]] constexpr std::optional<WeightCoding> find_coding(std::string_view name) {
  for (const WeightCoding coding : {WeightCoding::kNf4, WeightCoding::kFp4, WeightCoding::kInt8})
    if (name == name_of(coding)) return coding;
  return std::nullopt;
}

struct QuantisedFormat {
  WeightCoding coding = WeightCoding::kNf4;
  // For 4 bits: the elements of the flat weight that share a scale, a power of two from 32 to 4,096. Blocks run over
  // the ends of rows.
  int64_t block_size = 64;
  bool double_quant = true;  // of 4 bits: the scales are codes with scales themselves
  // f32, bf16 or f16: the type of the weight before it is quantised, to which decoded elements are rounded.
  DType weight_dtype = DType::kBF16;
  bool operator==(const QuantisedFormat&) const = default;
};

// The number of scales that share a scale of their own.
inline constexpr int64_t kNestedBlockSize = 256;

// MXFP4: blocks of 32 elements, each with a scale that is a power of two, a byte s for 2^(s - 127). All its values but
// the largest are numbers of bf16.
inline constexpr QuantisedFormat kMxfp4Format{
    .coding = WeightCoding::kMxfp4, .block_size = 32, .double_quant = false, .weight_dtype = DType::kBF16};
// The largest scale with which each code stands for a number of bf16: 6 * 2^125 is below 2^128.
inline constexpr uint8_t kMaxMxfp4Scale = 252;
// Returns the bits of an f32 that is a scale of MXFP4.
[[nodiscard]] constexpr uint32_t mxfp4_scale_bits(uint8_t scale) {
  return scale == 0 ? uint32_t{1} << 22 : uint32_t{scale} << 23;
}

[[nodiscard]] constexpr bool is_four_bit_block_size(int64_t size) {
  return size >= 32 && size <= 4096 && (size & (size - 1)) == 0;
}
[[nodiscard]] constexpr int64_t four_bit_code_bytes(int64_t elems) { return div_ceil(elems, int64_t{2}); }
[[nodiscard]] constexpr int64_t four_bit_blocks(int64_t elems, int64_t block_size) {
  return div_ceil(elems, block_size);
}

}  // namespace spillway
