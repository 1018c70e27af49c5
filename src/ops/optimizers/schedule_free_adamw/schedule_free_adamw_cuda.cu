// The kernels are bound by memory: 30 bytes per parameter with f32 gradients and a bf16 working copy (read p, z - y, v,
// g; write p, z - y, v and the copy), behind a launch of one thread. Not yet measured.
#include <cmath>

#include "backend/cuda/launch.cuh"
#include "ops/optimizers/schedule_free_adamw/numbers.h"
#include "ops/optimizers/update.cuh"

namespace spillway::ops {
namespace {

__global__ void __launch_bounds__(cuda::kWarp)
    average_kernel(AverageConstants constants, const AverageState* last, const float* learning_rate,
                   const int32_t* step, AverageState* next) {
  if (threadIdx.x == 0) *next = next_average(constants, *last, *learning_rate, *step);
}

__global__ void __launch_bounds__(cuda::kWarp)
    numbers_kernel(ScheduleFreeConstants constants, const AverageState* average, const float* learning_rate,
                   const int32_t* step, ScheduleFreeNumbers* numbers) {
  if (threadIdx.x == 0) *numbers = schedule_free_numbers(constants, *average, *learning_rate, *step);
}

struct ScheduleFreeFormula {
  const ScheduleFreeNumbers* from;

  __device__ ScheduleFreeNumbers numbers() const { return *from; }
  __device__ static void update(const ScheduleFreeNumbers& n, float& y, float g, float* state) {
    float &difference = state[0], &v = state[1];
    v = v * n.beta2 + g * g * n.one_minus_beta2;
    const float denominator = sqrtf(v) * n.inverse_root_correction + n.eps;
    const float direction = g / denominator + y * n.weight_decay;
    const float nearer = y + difference * n.share;
    difference = difference * n.rest - direction * n.z_rate;
    y = nearer - direction * n.y_rate;
  }
};

}  // namespace

void schedule_free_step_cuda(const KernelArgs& args) {
  using namespace schedule_free_step_op;
  cuda::launch(average_kernel, {1, cuda::kWarp}, args.stream, average_constants(args.attributes),
               args.inputs[kState].as<AverageState>(), args.inputs[kLearningRate].as<float>(),
               args.inputs[kStep].as<int32_t>(), args.outputs[0].as<AverageState>());
}

void schedule_free_adamw_cuda(const KernelArgs& args) {
  auto* const numbers = reinterpret_cast<ScheduleFreeNumbers*>(args.workspace);
  cuda::launch(numbers_kernel, {1, cuda::kWarp}, args.stream, schedule_free_constants(args.attributes),
               args.inputs[update_input::kStepState].as<AverageState>(),
               args.inputs[update_input::kLearningRate].as<float>(), args.inputs[update_input::kStep].as<int32_t>(),
               numbers);
  run_update<2>(args, ScheduleFreeFormula{numbers});
}

}  // namespace spillway::ops
