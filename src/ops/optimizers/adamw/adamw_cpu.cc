// The kernels are bound by memory: 28 bytes per parameter with f32 gradients and a bf16 working copy (read p, m, v, g;
// write p, m, v and the copy), next to which the arithmetic is nothing.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/adamw/adamw_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/adamw/formula-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void adamw(const KernelArgs& args) {
  const AdamwNumbers numbers =
      adamw_numbers(adamw_constants(args.attributes), *args.inputs[update_input::kLearningRate].as<float>(),
                    *args.inputs[update_input::kStep].as<int32_t>());
  run_update<2>(args, AdamwFormula(numbers));
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(adamw);
void adamw_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(adamw)(args); }
}  // namespace spillway::ops
#endif
