// The kernels are bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy (read p, sum, g;
// write p, sum and the copy), behind a launch of one thread. Not yet measured.
#include <cmath>

#include "ops/optimizers/adagrad/numbers.h"
#include "ops/optimizers/step_numbers.cuh"
#include "ops/optimizers/update.cuh"

namespace spillway::ops {
namespace {

struct AdagradFormula {
  const AdagradNumbers* from;

  __device__ AdagradNumbers numbers() const { return *from; }
  __device__ static void update(const AdagradNumbers& n, float& p, float g, float* state) {
    const float decayed = g + p * n.weight_decay;
    float& sum = state[0];
    sum = sum + decayed * decayed;
    p = p - n.rate * (decayed / (sqrtf(sum) + n.eps));
  }
};

}  // namespace

void adagrad_cuda(const KernelArgs& args) {
  run_update<1>(args, AdagradFormula{launch_step_numbers<adagrad_numbers>(args, adagrad_constants(args.attributes))});
}

}  // namespace spillway::ops
