// Weights in 8 bits, as bitsandbytes' LLM.int8 keeps them (arXiv 2208.07339): a row [columns] has its largest magnitude
// and codes from -127 to 127. Bits as bitsandbytes 0.50 has them on a CPU (backends/default/ops.py,
// int8_vectorwise_quant); its CUDA kernels divide instead of multiplying, so that a tie may fall the other way.
#pragma once

#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "tensor/dtype.h"

namespace spillway::ops {

// The weight is rounded to f16 first; then absmax (`SCB` in files) and rint(w * (127 * (1 / absmax))) of each row. A
// row of zeros has codes and absmax 0. Absmax is infinite where a weight of the row is too large for f16. REQUIRES: as
// many codes as elements; the elements are finite; absmax has one element a row, and rows are as long.
void quantise_int8_rows(std::span<const float> weight, std::span<int8_t> codes, std::span<float> absmax,
                        ThreadPool& pool);

}  // namespace spillway::ops
