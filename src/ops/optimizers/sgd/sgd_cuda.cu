// The kernels are bound by memory: 22 bytes per parameter with momentum, f32 gradients and a bf16 working copy (read p,
// momentum, g; write p, momentum and the copy). Not yet measured.
#include "ops/optimizers/sgd/numbers.h"
#include "ops/optimizers/update.cuh"

namespace spillway::ops {
namespace {

struct SgdFormula {
  const float* learning_rate;
  const int32_t* step;
  SgdConstants constants;

  __device__ SgdNumbers numbers() const { return sgd_numbers(constants, *learning_rate, *step); }
  __device__ static void update(const SgdNumbers& n, float& p, float g, float* state) {
    const float decayed = p * n.weight_decay + g;
    state[0] = state[0] * n.momentum + decayed * n.taken;
    p -= n.learning_rate * (n.nesterov ? decayed + state[0] * n.momentum : state[0]);
  }
};

}  // namespace

void sgd_cuda(const KernelArgs& args) {
  const SgdFormula formula{args.inputs[update_input::kLearningRate].as<float>(),
                           args.inputs[update_input::kStep].as<int32_t>(), sgd_constants(args.attributes)};
  if (formula.constants.momentum == 0) {
    run_update<0>(args, formula);
  } else {
    run_update<1>(args, formula);
  }
}

}  // namespace spillway::ops
