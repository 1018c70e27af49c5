// The kernels are bound by memory: 16 bytes per parameter with f32 gradients and a bf16 working copy (read p, g and the
// codes of m; write p, the copy and the codes), next to which decoding and encoding are not nothing: two look-ups and a
// division.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/lion_8bit/lion_8bit_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/block_update-inl.h"
#include "ops/optimizers/lion/formula-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void lion_8bit(const KernelArgs& args) { run_block_update<1>(args, LionFormula(args), {kBnbSigned}); }

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(lion_8bit);
void lion_8bit_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(lion_8bit)(args); }
}  // namespace spillway::ops
#endif
