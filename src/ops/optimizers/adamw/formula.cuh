// AdamW's formula for an element on a GPU. Files that use it are compiled without
// fusing, so that the bits are the CPU's.
#pragma once

#include <cmath>

#include "ops/optimizers/adamw/numbers.h"
#include "ops/optimizers/step_numbers.cuh"

namespace spillway::ops {

struct AdamwFormula {
  explicit AdamwFormula(const KernelArgs& args)
      : from(launch_step_numbers<adamw_numbers>(args, adamw_constants(args.attributes))) {}

  const AdamwNumbers* from;

  __device__ AdamwNumbers numbers() const { return *from; }
  __device__ static void update(const AdamwNumbers& n, float& p, float g, float* state) {
    float &m = state[0], &v = state[1];
    m = m + (g - m) * n.one_minus_beta1;
    v = v * n.beta2 + g * g * n.one_minus_beta2;
    const float denominator = sqrtf(v) * n.inverse_root_correction + n.eps;
    p = p * n.decay + n.minus_step_size * (m / denominator);
  }
};

}  // namespace spillway::ops
