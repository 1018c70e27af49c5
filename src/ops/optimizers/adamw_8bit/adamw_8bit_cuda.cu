// The kernels are bound by memory: 18.1 bytes per parameter with f32 gradients and a bf16 working copy (read p, g and
// the codes of m and v; write p, the copy and the codes), behind a launch of one thread. Not yet measured.
#include <cmath>

#include "ops/optimizers/adamw_8bit/numbers.h"
#include "ops/optimizers/block_update.cuh"
#include "ops/optimizers/step_numbers.cuh"

namespace spillway::ops {
namespace {

struct Adamw8bitFormula {
  const Adamw8bitNumbers* from;

  __device__ Adamw8bitNumbers numbers() const { return *from; }
  __device__ static void update(const Adamw8bitNumbers& n, float& p, float g, float* state) {
    float &m = state[0], &v = state[1];
    // A gradient that is not finite clears the moments and leaves the weight.
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
  const auto* numbers = launch_step_numbers<adamw_8bit_numbers>(args, adamw_constants(args.attributes));
  run_block_update<2>(args, Adamw8bitFormula{numbers}, {kBnbSigned, kBnbUnsigned});
}

}  // namespace spillway::ops
