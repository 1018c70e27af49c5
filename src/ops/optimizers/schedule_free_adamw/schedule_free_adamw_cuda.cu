#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/optimizers/schedule_free_adamw/numbers.h"

namespace spillway::ops {
namespace {

__global__ void __launch_bounds__(cuda::kWarp)
    average_kernel(AverageConstants constants, const AverageState* last, const float* learning_rate,
                   const int32_t* step, AverageState* next) {
  if (threadIdx.x == 0) *next = next_average(constants, *last, *learning_rate, *step);
}

}  // namespace

void schedule_free_step_cuda(const KernelArgs& args) {
  using namespace schedule_free_step_op;
  cuda::launch(average_kernel, {1, cuda::kWarp}, args.stream, average_constants(args.attributes),
               args.inputs[kState].as<AverageState>(), args.inputs[kLearningRate].as<float>(),
               args.inputs[kStep].as<int32_t>(), args.outputs[0].as<AverageState>());
}

}  // namespace spillway::ops
