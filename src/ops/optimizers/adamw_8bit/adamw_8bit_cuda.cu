// Bound by memory: 18.1 bytes per parameter with f32 gradients and a bf16 working copy (read p, g and the codes of m
// and v; write p, the copy and the codes), behind a launch of one thread. Not yet measured.
#include <cmath>

#include "ops/optimizers/adamw_8bit/numbers.h"
#include "ops/optimizers/block_update.cuh"

namespace spillway::ops {
namespace {

// By one thread, since most GPUs have next to no f64.
__global__ void __launch_bounds__(cuda::kWarp)
    adamw_8bit_numbers_kernel(OptimizerOptions options, const float* learning_rate, const int32_t* step,
                              Adamw8bitNumbers* numbers) {
  if (threadIdx.x == 0) *numbers = adamw_8bit_numbers(options, *learning_rate, *step);
}

struct Adamw8bitFormula {
  const Adamw8bitNumbers* from;

  __device__ Adamw8bitNumbers numbers() const { return *from; }
  __device__ static void update(const Adamw8bitNumbers& n, float& p, float g, float* state) {
    float &m = state[0], &v = state[1];
    // A gradient that is no number clears the moments and leaves the weight.
    if (!std::isfinite(g)) {
      m = 0;
      v = 0;
      return;
    }
    m = m * n.beta1 + g * n.one_minus_beta1;
    v = v * n.beta2 + g * g * n.one_minus_beta2;
    p = (p + n.step_size * (m / (sqrtf(v) + n.eps))) * n.decay;
  }
};

}  // namespace

void adamw_8bit_cuda(const KernelArgs& args) {
  auto* numbers = reinterpret_cast<Adamw8bitNumbers*>(args.workspace);
  cuda::launch(adamw_8bit_numbers_kernel, {1, cuda::kWarp}, args.stream, adamw_options(args.attributes),
               args.inputs[update_input::kLearningRate].as<float>(), args.inputs[update_input::kStep].as<int32_t>(),
               numbers);
  run_block_update<2>(args, Adamw8bitFormula{numbers}, {kBnbSigned, kBnbUnsigned});
}

}  // namespace spillway::ops
