// The operands of the kernels of layer_norm and of its gradient.
#pragma once

#include <cstddef>

#include "backend/kernel.h"
#include "ops/modulation/token_blocks.h"

namespace spillway::ops {

// Inputs of layer_norm. There is a weight and a bias, a modulation and its offsets, or neither of both.
namespace norm_input {
enum : size_t { kX, kWeight, kBias, kModulation, kSeqOffsets };
}
// Of its gradient. kAddend of dx; kFirstAddend of dweight or dmodulation, kSecondAddend of dbias.
namespace norm_grad_input {
enum : size_t { kX, kWeight, kModulation, kSeqOffsets, kStatistics, kDy, kAddend, kFirstAddend, kSecondAddend, kCount };
}

// What a row is multiplied by and what is added, before and after; null where it is absent.
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
