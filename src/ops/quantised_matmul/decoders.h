// What decodes a range of a weight on the CPU, one for each kind of codes; as ops::decode().
#pragma once

#include "ops/quantised_matmul/quantised_weight.h"

namespace spillway::ops {

using DecodeFunction = void(const QuantisedWeight& weight, const cpu::MatrixRange& range, DType dtype, int64_t stride,
                            void* out);
DecodeFunction decode_four_bit, decode_int8;

}  // namespace spillway::ops
