// A weight [rows, columns] as codes and what decodes them, in the formats of bitsandbytes: its parts as values of a
// graph, and as kernels see them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/matmul.h"
#include "graph/graph.h"
#include "tensor/view.h"

namespace spillway::ops {

enum class WeightCoding : uint8_t { kNf4, kFp4, kInt8 };

struct QuantisedFormat {
  WeightCoding coding = WeightCoding::kNf4;
  // Of 4-bit codes: elements of the flat weight that share a scale, a power of two from 32 to 4,096. Blocks run over
  // the ends of rows.
  int64_t block_size = 64;
  bool nested = true;  // of 4-bit codes: the scales are codes with scales themselves (double quantisation)
  // f32, bf16 or f16: decoded elements are rounded to it, once, and then to what computes with them.
  DType weight_dtype = DType::kBF16;
  bool operator==(const QuantisedFormat&) const = default;
};

constexpr int64_t kNestedBlock = 256;  // scales that share a nested scale

// The parts, in this order; the first is u8 (two codes a byte, the first one in the high half) or i8:
//   4 bits, nested    codes [n / 2], scales u8 [blocks], nested scales f32 [blocks / 256 + 1], the offset at the end
//   4 bits            codes [n / 2], scales f32 [blocks]
//   8 bits            codes [rows, columns], scales f32 [rows]: bitsandbytes' SCB
// Divisions round up. A block's scale is kDynamicSigned[code] * nested scale + offset, an element table[code] *
// scale, of 8 bits code * (scale / 127); each operation rounds.
[[nodiscard]] std::vector<ValueType> quantised_parts(const QuantisedFormat& format, int64_t rows, int64_t columns);

// As kernels see it.
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
// bf16). Any thread.
void decode(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType dtype, int64_t stride, void* out);

}  // namespace spillway::ops
