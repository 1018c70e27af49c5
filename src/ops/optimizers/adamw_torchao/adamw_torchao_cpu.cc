// The kernels are bound by memory: 18.1 bytes per parameter in 8 bits and 16.1 in 4, with f32 gradients and a bf16
// working copy (read p, g and the codes of m and v; write p, the copy and the codes).
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/adamw_torchao/adamw_torchao_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/adamw/formula-inl.h"
#include "ops/optimizers/block_update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void adamw_torchao(const KernelArgs& args) {
  const AdamwFormula formula(adamw_numbers(adamw_constants(args.attributes),
                                           *args.inputs[update_input::kLearningRate].as<float>(),
                                           *args.inputs[update_input::kStep].as<int32_t>()));
  if (args.attributes.integer("bits") == 8) {
    run_block_update<2>(args, formula, {kAoSigned8, kAoUnsigned8});
  } else {
    run_block_update<2>(args, formula, {kAoSigned4, kAoUnsigned4});
  }
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(adamw_torchao);
void adamw_torchao_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(adamw_torchao)(args); }
}  // namespace spillway::ops
#endif
