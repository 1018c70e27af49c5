#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation/activation_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/activation/functions-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void activation(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  with_activation(args, [&]<typename F>(F) {
    with_real(x.dtype, [&]<typename T>(T*) {
      args.threads->parallel_for(x.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
        map(
            begin, end, [](Vector v) HWY_ATTR { return F::value(v).v; }, out.as<T>(), x.as<T>());
      });
    });
  });
}

void activation_grad(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &dy = args.inputs[1], &dx = args.outputs[0];
  with_activation(args, [&]<typename F>(F) {
    with_real(x.dtype, [&]<typename T>(T*) {
      args.threads->parallel_for(x.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
        const auto gradient = [](Vector v, Vector d) HWY_ATTR { return hn::Mul(d, F::slope(v).v); };
        map(begin, end, gradient, dx.as<T>(), x.as<T>(), dy.as<T>());
      });
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(activation);
HWY_EXPORT(activation_grad);
void activation_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(activation)(args); }
void activation_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(activation_grad)(args); }
}  // namespace spillway::ops
#endif
