// The formats of weights kept as codes: bitsandbytes' formats of 4 and 8 bits, MXFP4 of the Open Compute Project (OCP
// Microscaling Formats, version 1.0), as gpt-oss's files have it, and FP8 E4M3 with scales.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/index.h"
#include "base/math.h"
#include "tensor/dtype.h"

namespace spillway {

enum class WeightCoding : uint8_t { kNf4, kFp4, kInt8, kMxfp4, kFp8 };

// The names of bitsandbytes' codings, by code.
inline constexpr std::array<std::string_view, 3> kWeightCodings = {"nf4", "fp4", "int8"};
[[nodiscard]] constexpr std::string_view name_of(WeightCoding coding) {
  if (coding == WeightCoding::kFp8) return "fp8";
  return coding == WeightCoding::kMxfp4 ? "mxfp4" : nth(kWeightCodings, coding);
}
// Returns nullopt if no coding of bitsandbytes has that name.
[[nodiscard]] constexpr std::optional<WeightCoding> find_coding(std::string_view name) {
  for (const WeightCoding coding : {WeightCoding::kNf4, WeightCoding::kFp4, WeightCoding::kInt8})
    if (name == name_of(coding)) return coding;
  return std::nullopt;
}

// Returns true for codings whose codes are a byte each.
[[nodiscard]] constexpr bool is_eight_bit(WeightCoding coding) {
  return coding == WeightCoding::kInt8 || coding == WeightCoding::kFp8;
}

struct QuantisedFormat {
  WeightCoding coding = WeightCoding::kNf4;
  // For 4 bits: the elements of the flat weight that share a scale, a power of two from 32 to 4,096. Blocks run over
  // the ends of rows.
  int64_t block_size = 64;
  bool double_quant = true;  // of 4 bits: the scales are codes with scales themselves
  // f32, bf16 or f16: the type of the weight before it is quantised, to which decoded elements are rounded.
  DType weight_dtype = DType::kBF16;
  // For FP8: the rows and columns that share a scale; blocks at the ends may have fewer. No columns: a whole row.
  int64_t block_rows = 1;
  int64_t block_columns = 0;
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

// FP8: E4M3 without infinities (Micikevicius et al., arXiv 2209.05433), whose products with a scale, in f32, are
// numbers of no narrower dtype.
[[nodiscard]] constexpr QuantisedFormat fp8_format(int64_t block_rows, int64_t block_columns) {
  return {.coding = WeightCoding::kFp8,
          .double_quant = false,
          .weight_dtype = DType::kF32,
          .block_rows = block_rows,
          .block_columns = block_columns};
}
// Returns true for the two codes of E4M3 that are NaN.
[[nodiscard]] constexpr bool is_e4m3_nan(uint8_t code) { return (code & 0x7F) == 0x7F; }
// Returns the number of a code that is not NaN.
[[nodiscard]] constexpr float e4m3_number(uint8_t code) {
  const uint32_t magnitude = code & 0x7Fu, sign = uint32_t{code & 0x80u} << 24;
  const float subnormal = static_cast<float>(magnitude) * 0x1p-9f;
  const uint32_t bits = magnitude < 8 ? std::bit_cast<uint32_t>(subnormal) : (magnitude << 20) + (120u << 23);
  return std::bit_cast<float>(sign | bits);
}
// The largest scale with which each code stands for a finite number of f32 and of bf16: 448 * 2^118 is below 2^127.
inline constexpr float kMaxFp8Scale = 0x1p118f;
// Returns the numbers of scales down and across a weight.
[[nodiscard]] constexpr int64_t fp8_scale_rows(const QuantisedFormat& format, int64_t rows) {
  return div_ceil(rows, format.block_rows);
}
[[nodiscard]] constexpr int64_t fp8_scale_columns(const QuantisedFormat& format, int64_t columns) {
  return format.block_columns == 0 ? 1 : div_ceil(columns, format.block_columns);
}

[[nodiscard]] constexpr bool is_four_bit_block_size(int64_t size) {
  return size >= 32 && size <= 4096 && (size & (size - 1)) == 0;
}
[[nodiscard]] constexpr int64_t four_bit_code_bytes(int64_t elems) { return div_ceil(elems, int64_t{2}); }
[[nodiscard]] constexpr int64_t four_bit_blocks(int64_t elems, int64_t block_size) {
  return div_ceil(elems, block_size);
}

}  // namespace spillway
