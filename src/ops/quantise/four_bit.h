// Weights in 4 bits in bitsandbytes' format: blocks of elements, each with its largest magnitude (absmax) and codes of
// NF4 or FP4 (tensor/codebook.h). A weight is taken flat, row-major: blocks run over the ends of rows, and the last one
// may be short. There are two codes a byte, element 2k in the high half of byte k; an odd end is filled with the code
// of zero.
//
// The bits are those of bitsandbytes 0.50 on a CPU (backends/default/ops.py), except for FP4's two zeros, of which only
// code 0 is written. Bits depend neither on the threads nor on how a weight is cut into pieces, if all but the last are
// whole blocks.
#pragma once

#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "tensor/quantised_format.h"

namespace spillway::ops {

// Writes codes and absmax of `weight`, whose elements are finite. A full block of zeros has absmax 0, a short one
// 1e-38. REQUIRES: codes has four_bit_code_bytes() elements, absmax four_bit_blocks().
void quantise_four_bit(std::span<const float> weight, const QuantisedFormat& format, std::span<uint8_t> codes,
                       std::span<float> absmax, ThreadPool& pool);
// Does double quantisation: absmax less its mean, in blocks of 256, as codes of the signed dynamic map. The mean is
// summed in f64, in order; everything else follows from it in f32. Returns the mean. REQUIRES: codes is as long as
// absmax, which is not empty; nested_absmax has a 256th, rounded up.
[[nodiscard]] float double_quantise(std::span<const float> absmax, std::span<uint8_t> codes,
                                    std::span<float> nested_absmax, ThreadPool& pool);
}  // namespace spillway::ops
