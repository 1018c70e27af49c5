// A weight [rows, columns] as codes and the numbers that decode them, in the formats of tensor/quantised_format.h: its
// parts as values of a graph, and as kernels see them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "ops/matmul/cpu/product.h"
#include "tensor/quantised_format.h"
#include "tensor/view.h"

namespace spillway::ops {

// Returns the types of the parts, in this order; the first is u8 (two codes a byte, the first one in the high half) or
// i8:
//   4 bits, nested    codes [n / 2], scales u8 [blocks], nested scales f32 [blocks / 256 + 1], the offset at the end
//   4 bits            codes [n / 2], scales f32 [blocks]
//   8 bits            codes [rows, columns], scales f32 [rows]: bitsandbytes' SCB
//   MXFP4             codes [n / 2], the first of a byte in the low half, scales u8 [blocks]
//   FP8               codes u8 [rows, columns], scales f32 [blocks down, blocks across]
// Divisions round up. A block's scale is kDynamicSigned[code] * nested scale + offset, that of MXFP4 2^(byte - 127); an
// element is table[code] * scale, for 8 bits code * (scale / 127), for FP8 the code's number * scale; each operation
// rounds.
[[nodiscard]] std::vector<ValueType> quantised_parts(const QuantisedFormat& format, int64_t rows, int64_t columns);

// The weight as kernels see it.
struct QuantisedWeight {
  const void* codes = nullptr;
  const void* scales = nullptr;
  const float* nested = nullptr;
  int64_t rows = 0, columns = 0;
  QuantisedFormat format;
};
[[nodiscard]] QuantisedWeight quantised_weight(const QuantisedFormat& format, int64_t rows, int64_t columns,
                                               std::span<const TensorView> parts);

// Decodes a range, to `out`, rows `stride` elements apart, rounded to the weight's dtype and then to `dtype` (f32 or
// bf16). Safe from any thread.
void decode(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType dtype, int64_t stride, void* out);
// Returns a decoder for the CPU's product; it borrows the weight.
[[nodiscard]] cpu::MatrixDecoder decoder_of(const QuantisedWeight& weight);

}  // namespace spillway::ops
