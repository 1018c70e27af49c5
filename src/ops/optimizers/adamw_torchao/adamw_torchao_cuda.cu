// The kernels are bound by memory: 18.1 bytes per parameter in 8 bits and 16.1 in 4, with f32 gradients and a bf16
// working copy (read p, g and the codes of m and v; write p, the copy and the codes), behind a launch of one thread.
// Not yet measured.
#include "ops/optimizers/adamw/formula.cuh"
#include "ops/optimizers/block_update.cuh"

namespace spillway::ops {

void adamw_torchao_cuda(const KernelArgs& args) {
  const AdamwFormula formula(args);
  if (args.attributes.integer("bits") == 8) {
    run_block_update<2>(args, formula, {kAoSigned8, kAoUnsigned8});
  } else {
    run_block_update<2>(args, formula, {kAoSigned4, kAoUnsigned4});
  }
}

}  // namespace spillway::ops
