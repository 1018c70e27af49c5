#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/add/add_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void add(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.inputs[1], &out = args.outputs[0];
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(x.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      const auto plus = [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); };
      map(begin, end, plus, out.as<T>(), x.as<T>(), y.as<T>());
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(add);
void add_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(add)(args); }
}  // namespace spillway::ops
#endif
