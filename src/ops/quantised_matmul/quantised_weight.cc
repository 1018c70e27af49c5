#include "ops/quantised_matmul/quantised_weight.h"

#include <cmath>

#include "base/math.h"
#include "ops/quantised_matmul/decoders.h"
#include "tensor/codebook.h"

namespace spillway::ops {
namespace {

DecodeFunction& decoder_for(const QuantisedWeight& weight) {
  return is_eight_bit(weight.format.coding) ? decode_eight_bit : decode_four_bit;
}

bool row_scales(const void* coded, int64_t row, int64_t rows, float* out) {
  const auto& weight = *static_cast<const QuantisedWeight*>(coded);
  if (weight.format.coding != WeightCoding::kInt8) {
    const int64_t blocks = weight.columns / weight.format.block_size;
    return four_bit_scales(weight, row * blocks, rows * blocks, out);
  }
  bool normal = true;
  for (int64_t i = 0; i < rows; ++i) {
    out[i] = static_cast<const float*>(weight.scales)[row + i] * kInt8Step;
    const float size = std::fabs(out[i]);
    normal &= size == 0 || (size >= kMinScale && size <= kMaxScale);
  }
  return normal;
}

// Returns none for elements of f16, which are rounded twice, unlike in products of few rows, for MXFP4, whose codes are
// in another order, and for FP8, whose codes are numbers of neither a table nor i8.
cpu::CodedRows coded_rows(const QuantisedWeight& weight) {
  const WeightCoding coding = weight.format.coding;
  if (weight.format.weight_dtype == DType::kF16 || coding == WeightCoding::kMxfp4 || coding == WeightCoding::kFp8)
    return {};
  const bool is_int8 = weight.format.coding == WeightCoding::kInt8;
  return {.codes = weight.codes,
          .table = is_int8                                      ? nullptr
                   : weight.format.coding == WeightCoding::kNf4 ? kNf4.data()
                                                                : kFp4.data(),
          .scale_elems = is_int8 ? weight.columns : weight.format.block_size,
          .to_bf16 = weight.format.weight_dtype == DType::kBF16,
          .scales = row_scales};
}

}  // namespace

std::vector<ValueType> quantised_parts(const QuantisedFormat& format, int64_t rows, int64_t columns) {
  if (format.coding == WeightCoding::kInt8) return {{DType::kI8, {rows, columns}}, {DType::kF32, {rows}}};
  if (format.coding == WeightCoding::kFp8) {
    const Shape blocks = {fp8_scale_rows(format, rows), fp8_scale_columns(format, columns)};
    return {{DType::kU8, {rows, columns}}, {DType::kF32, blocks}};
  }
  const int64_t elems = rows * columns, blocks = four_bit_blocks(elems, format.block_size);
  const ValueType codes{DType::kU8, {four_bit_code_bytes(elems)}};
  if (format.coding == WeightCoding::kMxfp4) return {codes, {DType::kU8, {blocks}}};
  if (!format.double_quant) return {codes, {DType::kF32, {blocks}}};
  return {codes, {DType::kU8, {blocks}}, {DType::kF32, {div_ceil(blocks, kNestedBlockSize) + 1}}};
}

QuantisedWeight quantised_weight(const QuantisedFormat& format, int64_t rows, int64_t columns,
                                 std::span<const TensorView> parts) {
  return {.codes = parts[0].data,
          .scales = parts[1].data,
          .nested = parts.size() > 2 ? parts[2].as<float>() : nullptr,
          .rows = rows,
          .columns = columns,
          .format = format};
}

void decode(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType dtype, int64_t stride, void* out) {
  decoder_for(weight)(weight, range, dtype, dtype, stride, out);
}

cpu::MatrixDecoder decoder_of(const QuantisedWeight& weight) {
  return {
      .decode =
          [](const void* coded, const cpu::MatrixRange& range, DType elements, DType dtype, int64_t stride, void* out) {
            const auto& of = *static_cast<const QuantisedWeight*>(coded);
            decoder_for(of)(of, range, elements, dtype, stride, out);
          },
      .coded = &weight,
      .rows = coded_rows(weight)};
}

}  // namespace spillway::ops
