// The kernels are bound by memory: 28 bytes per parameter with f32 gradients and a bf16 working copy (read p, m, v, g;
// write p, m, v and the copy), behind a launch of one thread. Not yet measured.
#include "ops/optimizers/adamw/formula.cuh"
#include "ops/optimizers/update.cuh"

namespace spillway::ops {

void adamw_cuda(const KernelArgs& args) { run_update<2>(args, AdamwFormula(args)); }

}  // namespace spillway::ops
