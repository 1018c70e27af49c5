// The kernels are bound by memory: 16 bytes per parameter with f32 gradients and a bf16 working copy (read p, g and the
// codes of m; write p, the copy and the codes). Not yet measured.
#include "ops/optimizers/block_update.cuh"
#include "ops/optimizers/lion/formula.cuh"

namespace spillway::ops {

void lion_8bit_cuda(const KernelArgs& args) { run_block_update<1>(args, LionFormula(args), {kBnbSigned}); }

}  // namespace spillway::ops
