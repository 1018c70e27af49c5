// The operands of layer_norm and of its gradient.
#pragma once

#include "backend/kernel.h"
#include "ops/modulation/token_blocks.h"
#include "ops/weight_shift.h"

namespace spillway::ops {

namespace layer_norm_op {
// There is a weight and perhaps a bias, a modulation and its offsets, or neither.
enum Input : int { kX, kWeight, kBias, kModulation, kSeqOffsets };
// The inputs of the gradient: kGradAddend is that of dx, kGradFirstAddend of dweight or dmodulation, kGradSecondAddend
// of dbias.
enum GradInput : int {
  kGradX,
  kGradWeight,
  kGradModulation,
  kGradSeqOffsets,
  kGradStatistics,
  kGradDy,
  kGradAddend,
  kGradFirstAddend,
  kGradSecondAddend
};
// The outputs of the gradient behind dx: dmodulation, or dweight and dbias.
enum GradOutput : int { kFirstSum = 1, kSecondSum };
}  // namespace layer_norm_op

// The factors and addends of a row, before and after; null if absent.
template <typename W>
struct RowFactors {
  const W *weight = nullptr, *bias = nullptr;
  const float *scale = nullptr, *shift = nullptr;
  float weight_shift = -0.0f;
};

template <typename W>
RowFactors<W> factors_of(const TensorView& weight, const TensorView& bias, const Attributes& attributes) {
  return {.weight = weight.as<W>(), .bias = bias.as<W>(), .weight_shift = weight_shift_of(attributes)};
}

}  // namespace spillway::ops
