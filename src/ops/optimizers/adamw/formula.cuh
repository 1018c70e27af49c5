// AdamW's formula for an element on a GPU, and the numbers that it takes. Files that use it are compiled without
// fusing, so that the bits are the CPU's.
#pragma once

#include <cmath>

#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/optimizers/adamw/numbers.h"
#include "ops/optimizers/update.h"

namespace spillway::ops {

// By one thread, since most GPUs have next to no f64.
static __global__ void __launch_bounds__(cuda::kWarp)
    adamw_numbers_kernel(OptimizerOptions options, const float* learning_rate, const int32_t* step,
                         AdamwNumbers* numbers) {
  if (threadIdx.x == 0) *numbers = adamw_numbers(options, *learning_rate, *step);
}

// Into the workspace of the operation, which has room for them.
inline const AdamwNumbers* launch_adamw_numbers(const KernelArgs& args) {
  auto* numbers = reinterpret_cast<AdamwNumbers*>(args.workspace);
  cuda::launch(adamw_numbers_kernel, {1, cuda::kWarp}, args.stream, adamw_options(args.attributes),
               args.inputs[update_input::kLearningRate].as<float>(), args.inputs[update_input::kStep].as<int32_t>(),
               numbers);
  return numbers;
}

struct AdamwFormula {
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
