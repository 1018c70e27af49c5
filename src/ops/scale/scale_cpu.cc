#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/scale/scale_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void scale(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  const float factor =
      static_cast<float>(args.attributes.real("factor")) * (args.inputs.size() > 1 ? *args.inputs[1].as<float>() : 1);
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(x.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      const Vector factors = constant(factor);
      const auto times = [&](Vector v) HWY_ATTR { return hn::Mul(v, factors); };
      map(begin, end, times, out.as<T>(), x.as<T>());
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(scale);
void scale_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(scale)(args); }
}  // namespace spillway::ops
#endif
