// Decodes elements of a weight that is kept as codes, on a GPU: as on the CPU, each operation rounds.
#pragma once

#include <algorithm>
#include <bit>

#include "backend/cuda/kernel.cuh"
#include "base/math.h"
#include "ops/quantised_matmul/quantised_weight.h"
#include "tensor/codebook.h"

namespace spillway::ops::cuda_decode {

// Returns a value rounded to a dtype.
__device__ inline float rounded_to(DType dtype, float value) {
  if (dtype == DType::kBF16) return to_float(cuda::from_float<bf16>(value));
  if (dtype == DType::kF16) return to_float(to_f16(value));
  return value;
}

// Returns a * b, rounded, also where a sum follows with which it would be fused.
__device__ inline float rounded_product(float a, float b) {
#ifdef __CUDACC__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

// The elements of weights in 4 bits. A kernel has it among its arguments.
struct FourBitCodes {
  explicit FourBitCodes(const QuantisedWeight& weight)
      : is_nested(weight.format.double_quant),
        weight_dtype(weight.format.weight_dtype),
        block_size(weight.format.block_size),
        nested_blocks(div_ceil(div_ceil(weight.rows * weight.columns, block_size), kNestedBlockSize)),
        is_mxfp4(weight.format.coding == WeightCoding::kMxfp4) {
    const auto& codebook = is_mxfp4 ? kE2m1 : weight.format.coding == WeightCoding::kNf4 ? kNf4 : kFp4;
    std::copy(codebook.begin(), codebook.end(), values);
    std::copy(kDynamicSigned.begin(), kDynamicSigned.end(), nested_values);
  }

  __device__ float scale_of(const void* scales, const float* nested, int64_t block) const {
    if (is_mxfp4) return std::bit_cast<float>(mxfp4_scale_bits(static_cast<const uint8_t*>(scales)[block]));
    if (!is_nested) return static_cast<const float*>(scales)[block];
    const float value = nested_values[static_cast<const uint8_t*>(scales)[block]];
    return rounded_product(value, nested[block / kNestedBlockSize]) + nested[nested_blocks];
  }
  // Returns element `at` of the flat weight, whose pair of codes and scale these are.
  __device__ float element(int64_t at, uint8_t pair, float scale) const {
    return rounded_to(weight_dtype, values[(at % 2 == 0) != is_mxfp4 ? pair >> 4 : pair & 15] * scale);
  }

  bool is_nested;
  DType weight_dtype;
  int64_t block_size, nested_blocks;
  bool is_mxfp4;  // then the first code of a byte is in its low half
  float values[16], nested_values[256];
};

// The elements of weights in 8 bits. A kernel has it among its arguments.
struct EightBitCodes {
  explicit EightBitCodes(const QuantisedWeight& weight)
      : is_fp8(weight.format.coding == WeightCoding::kFp8),
        weight_dtype(weight.format.weight_dtype),
        columns(weight.columns),
        block_rows(weight.format.block_rows),
        block_columns(weight.format.block_columns == 0 ? weight.columns : weight.format.block_columns),
        across(fp8_scale_columns(weight.format, weight.columns)) {}

  // Returns element `at` of the flat weight.
  __device__ float element(const uint8_t* codes, const float* scales, int64_t at) const {
    const int64_t row = at / columns;
    if (is_fp8) {
      const int64_t column = at - row * columns;
      return rounded_product(e4m3_number(codes[at]), scales[row / block_rows * across + column / block_columns]);
    }
    const float scale = scales[row];
    const auto code = static_cast<float>(static_cast<int8_t>(codes[at]));
    return rounded_to(weight_dtype, rounded_product(code, rounded_product(scale, 1.0f / 127.0f)));
  }

  bool is_fp8;
  DType weight_dtype;
  int64_t columns, block_rows, block_columns, across;  // the last: scales of a row
};

}  // namespace spillway::ops::cuda_decode
