// The operands of the kernels of layer_norm and of its gradient.
#pragma once

#include <cstddef>

#include "backend/kernel.h"
#include "ops/modulation/token_blocks.h"

namespace spillway::ops {

// The inputs of layer_norm. There is a weight and perhaps a bias, a modulation and its offsets, or neither.
namespace norm_input {
enum : size_t { kX, kWeight, kBias, kModulation, kSeqOffsets };
}
// The inputs of its gradient: kAddend is that of dx; kFirstAddend of dweight or dmodulation, kSecondAddend of dbias.
namespace norm_grad_input {
enum : size_t { kX, kWeight, kModulation, kSeqOffsets, kStatistics, kDy, kAddend, kFirstAddend, kSecondAddend, kCount };
}

// The factors and addends of a row, before and after; null if absent.
template <typename W>
struct RowFactors {
  const W *weight = nullptr, *bias = nullptr;
  const float *scale = nullptr, *shift = nullptr;
};

template <typename W>
RowFactors<W> factors_of(const TensorView& weight, const TensorView& bias) {
  return {.weight = weight.as<W>(), .bias = bias.as<W>()};
}

}  // namespace spillway::ops
