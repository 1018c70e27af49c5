// The kernels are bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy (read p, m, g;
// write p, m and the copy).
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/lion/lion_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/lion/formula-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void lion(const KernelArgs& args) { run_update<1>(args, LionFormula(args)); }

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(lion);
void lion_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(lion)(args); }
}  // namespace spillway::ops
#endif
