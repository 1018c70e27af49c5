// The kernels are bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy (read p, v, g;
// write p, v and the copy), and 8 more with momentum, and where centered. Not yet measured.
#include <cmath>

#include "ops/optimizers/rmsprop/numbers.h"
#include "ops/optimizers/update.cuh"

namespace spillway::ops {
namespace {

template <bool kMomentum, bool kCentered>
struct RmspropFormula {
  const float* learning_rate;
  RmspropNumbers constants;

  __device__ RmspropNumbers numbers() const {
    RmspropNumbers n = constants;
    n.learning_rate = *learning_rate;
    return n;
  }
  __device__ static void update(const RmspropNumbers& n, float& p, float g, float* state) {
    const float decayed = g + p * n.weight_decay;
    float& square = state[0];
    square = square * n.alpha + decayed * decayed * n.one_minus_alpha;
    float variance = square;
    if constexpr (kCentered) {
      float& mean = state[kMomentum ? 2 : 1];
      mean = mean + (decayed - mean) * n.one_minus_alpha;
      // Rounding may leave it below zero, for which torch gives NaN; a negative variance counts as zero.
      variance = square - mean * mean;
      variance = variance > 0 ? variance : 0.0F;
    }
    float step = decayed / (sqrtf(variance) + n.eps);
    if constexpr (kMomentum) {
      state[1] = state[1] * n.momentum + step;
      step = state[1];
    }
    p = p - n.learning_rate * step;
  }
};

template <bool kMomentum, bool kCentered>
void run_rmsprop(const KernelArgs& args) {
  run_update<1 + kMomentum + kCentered>(
      args, RmspropFormula<kMomentum, kCentered>{args.inputs[update_input::kLearningRate].as<float>(),
                                                 rmsprop_numbers(args.attributes)});
}

}  // namespace

void rmsprop_cuda(const KernelArgs& args) {
  const bool has_momentum = args.attributes.real("momentum") != 0;
  if (args.attributes.real("centered") != 0) {
    has_momentum ? run_rmsprop<true, true>(args) : run_rmsprop<false, true>(args);
  } else {
    has_momentum ? run_rmsprop<true, false>(args) : run_rmsprop<false, false>(args);
  }
}

}  // namespace spillway::ops
