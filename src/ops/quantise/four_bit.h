// Weights in 4 bits, as bitsandbytes keeps them: blocks of elements, each with its largest magnitude (absmax) and codes
// of NF4 or FP4 (tensor/codebook.h). A weight is taken flat, row-major: blocks run over the ends of rows, and the last
// one may be short. Two codes a byte, element 2k in the high half of byte k; an odd end is filled with the code of
// zero.
//
// The same bits as bitsandbytes 0.50 on a CPU (backends/default/ops.py), but for FP4's two zeros, of which code 0 alone
// is written. Bits depend neither on the threads nor on how a weight is cut into pieces, if all but the last are whole
// blocks.
#pragma once

#include <cstdint>
#include <span>

#include "base/math.h"
#include "base/parallel.h"
#include "tensor/dtype.h"

namespace spillway::ops {

enum class FourBitType : uint8_t { kNf4, kFp4 };

struct FourBitFormat {
  FourBitType type = FourBitType::kNf4;
  int64_t block_size = 64;   // elements: a power of two, 32 to 4096
  bool double_quant = true;  // whether absmax is kept as codes, too: double_quantise()
  bool operator==(const FourBitFormat&) const = default;
};

// Elements of absmax that share a scale when they are quantised again.
constexpr int64_t kNestedBlockSize = 256;

[[nodiscard]] constexpr bool is_four_bit_block_size(int64_t size) {
  return size >= 32 && size <= 4096 && (size & (size - 1)) == 0;
}
[[nodiscard]] constexpr int64_t four_bit_code_bytes(int64_t elems) { return div_ceil(elems, 2); }
[[nodiscard]] constexpr int64_t four_bit_blocks(int64_t elems, int64_t block_size) {
  return div_ceil(elems, block_size);
}

// Codes and absmax of `weight`, whose elements are finite. A full block of zeros has absmax 0, a short one 1e-38.
// REQUIRES: codes has four_bit_code_bytes() elements, absmax four_bit_blocks().
void quantise_four_bit(std::span<const float> weight, const FourBitFormat& format, std::span<uint8_t> codes,
                       std::span<float> absmax, ThreadPool& pool);
void quantise_four_bit(std::span<const bf16> weight, const FourBitFormat& format, std::span<uint8_t> codes,
                       std::span<float> absmax, ThreadPool& pool);

// weight = table[code] * absmax in f32, rounded once. REQUIRES: sizes as above.
void dequantise_four_bit(std::span<const uint8_t> codes, std::span<const float> absmax, const FourBitFormat& format,
                         std::span<float> weight, ThreadPool& pool);
void dequantise_four_bit(std::span<const uint8_t> codes, std::span<const float> absmax, const FourBitFormat& format,
                         std::span<bf16> weight, ThreadPool& pool);

// Double quantisation: absmax less its mean, in blocks of 256, as codes of the signed dynamic map. The mean is summed
// in f64, in order; everything else follows from it in f32. Returns the mean. REQUIRES: codes is as long as absmax,
// which is not empty; nested_absmax has a 256th, rounded up.
[[nodiscard]] float double_quantise(std::span<const float> absmax, std::span<uint8_t> codes,
                                    std::span<float> nested_absmax, ThreadPool& pool);
// absmax = map[code] * nested_absmax + offset, rounded twice. `map` has 256 values: kDynamicSigned, or a file's.
void undo_double_quantise(std::span<const uint8_t> codes, std::span<const float> nested_absmax, float offset,
                          std::span<const float> map, std::span<float> absmax);

}  // namespace spillway::ops
