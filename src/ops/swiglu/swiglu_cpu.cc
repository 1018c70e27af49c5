#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/swiglu/swiglu_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/activation/functions-inl.h"
#include "ops/swiglu/operands.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

template <typename F>
void gated(const KernelArgs& args) {
  using namespace swiglu_op;
  const TensorView &gate = args.inputs[kGate], &up = args.inputs[kUp], &out = args.outputs[0];
  with_real(gate.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(gate.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      const auto product = [](Vector g, Vector u) HWY_ATTR { return hn::Mul(F::value(g).v, u); };
      map(begin, end, product, out.as<T>(), gate.as<T>(), up.as<T>());
    });
  });
}

// Computes dgate = dy * up * slope(gate), dup = dy * value(gate).
template <typename F>
HWY_INLINE void gated_gradients(Vector g, Vector u, Vector dy, Vector* dgate, Vector* dup) {
  *dgate = hn::Mul(hn::Mul(dy, u), F::slope(g).v);
  *dup = hn::Mul(dy, F::value(g).v);
}

template <typename F, typename T>
void gated_grad_range(const KernelArgs& args, int64_t begin, int64_t end) {
  using namespace swiglu_op;
  const T *gate = args.inputs[kGate].as<T>(), *up = args.inputs[kUp].as<T>(), *dy = args.inputs[kDy].as<T>();
  T *dgate = args.outputs[0].as<T>(), *dup = args.outputs[1].as<T>();
  Vector left, right;
  int64_t i = begin;
  for (; i + lanes() <= end; i += lanes()) {
    gated_gradients<F>(load(gate + i), load(up + i), load(dy + i), &left, &right);
    store(left, dgate + i);
    store(right, dup + i);
  }
  if (i == end) return;
  gated_gradients<F>(load_some(gate + i, end - i), load_some(up + i, end - i), load_some(dy + i, end - i), &left,
                     &right);
  store_some(left, dgate + i, end - i);
  store_some(right, dup + i, end - i);
}

template <typename F>
void gated_grad(const KernelArgs& args) {
  using namespace swiglu_op;
  const TensorView& gate = args.inputs[kGate];
  with_real(gate.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(gate.elems(), kElementGrain,
                               [&](int64_t begin, int64_t end, int) { gated_grad_range<F, T>(args, begin, end); });
  });
}

void swiglu(const KernelArgs& args) { gated<Silu>(args); }
void swiglu_grad(const KernelArgs& args) { gated_grad<Silu>(args); }
void geglu(const KernelArgs& args) { gated<GeluTanh>(args); }
void geglu_grad(const KernelArgs& args) { gated_grad<GeluTanh>(args); }
void glu(const KernelArgs& args) { gated<Sigmoid>(args); }
void glu_grad(const KernelArgs& args) { gated_grad<Sigmoid>(args); }
void bilinear(const KernelArgs& args) { gated<Identity>(args); }
void bilinear_grad(const KernelArgs& args) { gated_grad<Identity>(args); }

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(swiglu);
HWY_EXPORT(swiglu_grad);
HWY_EXPORT(geglu);
HWY_EXPORT(geglu_grad);
HWY_EXPORT(glu);
HWY_EXPORT(glu_grad);
HWY_EXPORT(bilinear);
HWY_EXPORT(bilinear_grad);
void swiglu_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(swiglu)(args); }
void swiglu_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(swiglu_grad)(args); }
void geglu_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(geglu)(args); }
void geglu_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(geglu_grad)(args); }
void glu_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(glu)(args); }
void glu_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(glu_grad)(args); }
void bilinear_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(bilinear)(args); }
void bilinear_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(bilinear_grad)(args); }
}  // namespace spillway::ops
#endif
