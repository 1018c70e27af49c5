// Bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy (read p, m, g; write p, m and the
// copy). Not yet measured.
#include <cmath>

#include "ops/optimizers/lion/numbers.h"
#include "ops/optimizers/update.cuh"

namespace spillway::ops {
namespace {

struct LionFormula {
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
    // No step where the direction is 0.
    p = decayed - (direction != 0 ? copysignf(n.learning_rate, direction) : 0.0f);
  }
};

}  // namespace

void lion_cuda(const KernelArgs& args) {
  run_update<1>(args, LionFormula{args.inputs[update_input::kLearningRate].as<float>(), lion_numbers(args.attributes)});
}

}  // namespace spillway::ops
