// Computes the numbers of a step on a GPU, since step and learning rate are read when the program runs. Files that use
// it are compiled without fusing, so that the bits are the CPU's.
#pragma once

#include "backend/cuda/launch.cuh"
#include "ops/optimizers/update.h"

namespace spillway::ops {

// Runs on one thread, since most GPUs have next to no f64.
template <auto kNumbersOf, typename Constants, typename Numbers>
__global__ void __launch_bounds__(cuda::kWarp)
    step_numbers_kernel(Constants constants, const float* learning_rate, const int32_t* step, Numbers* numbers) {
  if (threadIdx.x == 0) *numbers = kNumbersOf(constants, *learning_rate, *step);
}

// Writes kNumbersOf(constants, learning_rate, step) to the workspace of the operation, which has room for them.
template <auto kNumbersOf, typename Constants>
auto* launch_step_numbers(const KernelArgs& args, const Constants& constants) {
  using Numbers = decltype(kNumbersOf(constants, 0.0F, 0));
  auto* numbers = reinterpret_cast<Numbers*>(args.workspace);
  cuda::launch(step_numbers_kernel<kNumbersOf, Constants, Numbers>, {1, cuda::kWarp}, args.stream, constants,
               args.inputs[update_input::kLearningRate].as<float>(), args.inputs[update_input::kStep].as<int32_t>(),
               numbers);
  return static_cast<const Numbers*>(numbers);
}

}  // namespace spillway::ops
