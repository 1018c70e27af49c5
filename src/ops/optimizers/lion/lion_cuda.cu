// The kernels are bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy (read p, m, g;
// write p, m and the copy). Not yet measured.
#include "ops/optimizers/lion/formula.cuh"
#include "ops/optimizers/update.cuh"

namespace spillway::ops {

void lion_cuda(const KernelArgs& args) { run_update<1>(args, LionFormula(args)); }

}  // namespace spillway::ops
