// The kernels are bound by memory: 38 bytes per parameter with f32 gradients and a bf16 working copy (read p, three
// moments, g; write p, the moments and the copy), 20.1 with moments in 8 bits; behind a launch of one thread. Not yet
// measured.
#include <cmath>

#include "ops/optimizers/ademamix/numbers.h"
#include "ops/optimizers/block_update.cuh"
#include "ops/optimizers/step_numbers.cuh"
#include "ops/optimizers/update.cuh"

namespace spillway::ops {
namespace {

template <bool kIn8bits>
struct AdemamixFormula {
  const AdemamixNumbers* from;

  __device__ AdemamixNumbers numbers() const { return *from; }
  __device__ static void update(const AdemamixNumbers& n, float& p, float g, float* state) {
    float &m = state[0], &slow = state[1], &v = state[2];
    if constexpr (kIn8bits) {
      // A gradient that is not finite clears the moments and leaves the weight.
      if (!std::isfinite(g)) {
        m = slow = v = 0;
        return;
      }
    }
    m = m * n.beta1 + g * n.one_minus_beta1;
    slow = slow * n.beta3 + g * n.one_minus_beta3;
    v = v * n.beta2 + g * g * n.one_minus_beta2;
    const float mixed = m * n.inverse_correction1 + n.alpha * slow;
    const float step = n.learning_rate * (mixed / (sqrtf(v) * n.inverse_root_correction2 + n.eps));
    p = kIn8bits ? (p - step) * n.decay : p * n.decay - step;
  }
};

const AdemamixNumbers* launch_numbers(const KernelArgs& args) {
  return launch_step_numbers<ademamix_numbers>(args, ademamix_constants(args.attributes));
}

}  // namespace

void ademamix_cuda(const KernelArgs& args) { run_update<3>(args, AdemamixFormula<false>{launch_numbers(args)}); }

void ademamix_8bit_cuda(const KernelArgs& args) {
  run_block_update<3>(args, AdemamixFormula<true>{launch_numbers(args)}, {kBnbSigned, kBnbSigned, kBnbUnsigned});
}

}  // namespace spillway::ops
