// Weights in 8 bits in the format of bitsandbytes' LLM.int8 (arXiv 2208.07339): a row [columns] has its largest
// magnitude and codes from -127 to 127. The bits are those of bitsandbytes 0.50 on a CPU (backends/default/ops.py,
// int8_vectorwise_quant); its CUDA kernels divide instead of multiplying, so that a tie may fall the other way.
#pragma once

#include <cstdint>
#include <span>

#include "base/parallel.h"
#include "tensor/dtype.h"

namespace spillway::ops {

// Rounds the weight to f16 first; then writes absmax (`SCB` in files) and rint(w * (127 * (1 / absmax))) of each row. A
// row of zeros has codes and absmax 0. Absmax is infinite if a weight of the row is too large for f16. REQUIRES: as
// many codes as elements; the elements are finite; absmax has one element per row, and rows are equally long.
void quantise_int8_rows(std::span<const float> weight, std::span<int8_t> codes, std::span<float> absmax,
                        ThreadPool& pool);

}  // namespace spillway::ops
