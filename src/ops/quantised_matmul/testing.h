// Weights of codes for tests, with their elements by the formulas of the formats.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/index.h"
#include "ops/quantised_matmul/quantised_weight.h"
#include "ops/testing.h"
#include "tensor/codebook.h"

namespace spillway::ops::testing {

[[nodiscard]] inline float rounded_to(DType dtype, float value) {
  if (dtype == DType::kBF16) return to_float(to_bf16(value));
  return dtype == DType::kF16 ? to_float(to_f16(value)) : value;
}

// A weight of random codes, and its elements by the formulas of the formats, one after another.
struct CodedWeight {
  CodedWeight(const QuantisedFormat& of_format, int64_t of_rows, int64_t of_columns, DType computing,
              double scale_unit = 1, uint64_t seed = 7)
      : format(of_format), rows(of_rows), columns(of_columns) {
    const std::vector<ValueType> types = ops::quantised_parts(format, rows, columns);
    for (size_t i = 0; i < types.size(); ++i) {
      const int64_t elems = types[i].shape.elems();
      if (types[i].dtype == DType::kF32) {
        Numbers scales = random_numbers(elems, seed + i, 0.02);
        for (double& scale : scales) scale = (std::abs(scale) + 1e-3) * scale_unit;
        parts.push_back({types[i], rounded(scales, DType::kF32), false});
      } else {
        const bool are_powers = format.coding == WeightCoding::kMxfp4 && i == 1;
        const bool are_e4m3 = format.coding == WeightCoding::kFp8;
        Numbers codes = random_integers(elems, seed + i, are_powers ? 6 : types[i].dtype == DType::kI8 ? 255 : 256);
        if (types[i].dtype == DType::kI8)
          for (double& code : codes) code -= 127;
        if (are_e4m3) {
          for (double& code : codes)
            if (code == 127 || code == 255) code -= 1;  // NaN
        }
        if (are_powers)
          for (double& code : codes) code += std::max(0.0, 118 + std::floor(std::log2(scale_unit)));
        parts.push_back({types[i], codes, false});
      }
    }
    for (int64_t i = 0; i < rows * columns; ++i)
      elements.push_back(static_cast<double>(rounded_to(computing, rounded_to(format.weight_dtype, element(i)))));
  }

  [[nodiscard]] float number(size_t part, int64_t i) const { return static_cast<float>(nth(parts[part].numbers, i)); }
  [[nodiscard]] float element(int64_t i) const {
    if (format.coding == WeightCoding::kInt8) {
      const float step = number(1, i / columns) * (1.0f / 127.0f);
      return number(0, i) * step;
    }
    if (format.coding == WeightCoding::kFp8) return e4m3_element(i);
    const int64_t block = i / format.block_size;
    float scale = number(1, block);
    if (format.coding == WeightCoding::kMxfp4) return mxfp4_element(i, std::ldexp(1.0f, static_cast<int>(scale) - 127));
    if (format.double_quant) {
      const float scaled = nth(kDynamicSigned, scale) * number(2, block / 256);
      scale = scaled + number(2, parts[2].type.shape[0] - 1);
    }
    const auto pair = static_cast<unsigned>(number(0, i / 2));
    const auto& table = format.coding == WeightCoding::kNf4 ? kNf4 : kFp4;
    return table[i % 2 == 0 ? pair >> 4 : pair & 15] * scale;
  }

  // E4M3: four bits of exponent, biased by seven, and three of more; an exponent of zero is that of one without its 1.
  [[nodiscard]] float e4m3_element(int64_t i) const {
    const auto code = static_cast<int>(number(0, i)), exponent = code >> 3 & 15, fraction = code & 7;
    const double size = std::ldexp(exponent == 0 ? fraction : 8 + fraction, std::max(exponent, 1) - 10);
    const int64_t width = format.block_columns == 0 ? columns : format.block_columns;
    const int64_t block = i / columns / format.block_rows * div_ceil(columns, width) + i % columns / width;
    return static_cast<float>((code & 128) != 0 ? -size : size) * number(1, block);
  }
  [[nodiscard]] float mxfp4_element(int64_t i, float scale) const {
    const auto pair = static_cast<unsigned>(number(0, i / 2)), code = i % 2 == 0 ? pair & 15 : pair >> 4;
    const auto exponent = static_cast<int>(code >> 1 & 3);
    const float fraction = (code & 1) != 0 ? 0.5f : 0.0f;  // E2M1: two bits of exponent, biased by one, and one of more
    const float size = exponent == 0 ? fraction : std::ldexp(1 + fraction, exponent - 1);
    return ((code & 8) != 0 ? -size : size) * scale;
  }

  QuantisedFormat format;
  int64_t rows, columns;
  std::vector<OperandCase> parts;
  Numbers elements;
};

}  // namespace spillway::ops::testing
