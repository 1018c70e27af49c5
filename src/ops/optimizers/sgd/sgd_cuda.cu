// Bound by memory: 22 bytes per parameter with momentum, f32 gradients and a bf16 working copy (read p, momentum, g;
// write p, momentum and the copy). Not yet measured.
#include "ops/optimizers/update.cuh"

namespace spillway::ops {
namespace {

struct SgdNumbers {
  float learning_rate, momentum, weight_decay;
};

struct SgdFormula {
  const float* learning_rate;
  float momentum, weight_decay;

  __device__ SgdNumbers numbers() const { return {*learning_rate, momentum, weight_decay}; }
  __device__ static void update(const SgdNumbers& n, float& p, float g, float* state) {
    const float decayed = p * n.weight_decay + g;
    state[0] = state[0] * n.momentum + decayed;
    p -= n.learning_rate * state[0];
  }
};

}  // namespace

void sgd_cuda(const KernelArgs& args) {
  const double momentum = args.attributes.real("momentum");
  const SgdFormula formula{args.inputs[update_input::kLearningRate].as<float>(), static_cast<float>(momentum),
                           static_cast<float>(args.attributes.real("weight_decay"))};
  if (momentum == 0) {
    run_update<0>(args, formula);
  } else {
    run_update<1>(args, formula);
  }
}

}  // namespace spillway::ops
