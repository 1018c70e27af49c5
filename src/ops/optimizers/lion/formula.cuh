// Lion's formula for an element on a GPU. Files that use it are compiled without fusing, so that the bits are the
// CPU's.
#pragma once

#include <cmath>

#include "backend/cuda/launch.cuh"
#include "ops/optimizers/lion/numbers.h"
#include "ops/optimizers/update.h"

namespace spillway::ops {

struct LionFormula {
  explicit LionFormula(const KernelArgs& args)
      : learning_rate(args.inputs[update_input::kLearningRate].as<float>()), constants(lion_numbers(args.attributes)) {}

  const float* learning_rate;
  LionNumbers constants;

  __device__ LionNumbers numbers() const {
    LionNumbers n = constants;
    n.learning_rate = *learning_rate;
    return n;
  }
  __device__ static void update(const LionNumbers& n, float& p, float g, float* state) {
    float& m = state[0];
    const float direction = m * n.beta1 + g * n.one_minus_beta1;
    m = m * n.beta2 + g * n.one_minus_beta2;
    const float decayed = p * (1 - n.learning_rate * n.weight_decay);
    // There is no step if the direction is 0.
    p = decayed - (direction != 0 ? copysignf(n.learning_rate, direction) : 0.0f);
  }
};

}  // namespace spillway::ops
