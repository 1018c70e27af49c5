#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cast/cast_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void cast(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  with_real(x.dtype, [&]<typename From>(From*) {
    with_real(out.dtype, [&]<typename To>(To*) {
      args.threads->parallel_for(x.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
        map(
            begin, end, [](Vector v) HWY_ATTR { return v; }, out.as<To>(), x.as<From>());
      });
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(cast);
void cast_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(cast)(args); }
}  // namespace spillway::ops
#endif
