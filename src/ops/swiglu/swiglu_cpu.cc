#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/swiglu/swiglu_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void swiglu(const KernelArgs& args) {
  const TensorView &gate = args.inputs[0], &up = args.inputs[1], &out = args.outputs[0];
  with_real(gate.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(gate.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      const auto product = [](Vector g, Vector u) HWY_ATTR { return hn::Mul(hn::Mul(g, sigmoid(g)), u); };
      map(begin, end, product, out.as<T>(), gate.as<T>(), up.as<T>());
    });
  });
}

// With s = sigmoid(gate): dgate = dy * up * s * (1 + gate * (1 - s)), dup = dy * gate * s.
HWY_INLINE void swiglu_gradients(Vector g, Vector u, Vector dy, Vector* dgate, Vector* dup) {
  const Vector s = sigmoid(g);
  const Vector slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(constant(1), s), constant(1)));
  *dgate = hn::Mul(hn::Mul(dy, u), slope);
  *dup = hn::Mul(dy, hn::Mul(g, s));
}

template <typename T>
void swiglu_grad_range(const KernelArgs& args, int64_t begin, int64_t end) {
  const T *gate = args.inputs[0].as<T>(), *up = args.inputs[1].as<T>(), *dy = args.inputs[2].as<T>();
  T *dgate = args.outputs[0].as<T>(), *dup = args.outputs[1].as<T>();
  Vector left, right;
  int64_t i = begin;
  for (; i + lanes() <= end; i += lanes()) {
    swiglu_gradients(load(gate + i), load(up + i), load(dy + i), &left, &right);
    store(left, dgate + i);
    store(right, dup + i);
  }
  if (i == end) return;
  swiglu_gradients(load_some(gate + i, end - i), load_some(up + i, end - i), load_some(dy + i, end - i), &left, &right);
  store_some(left, dgate + i, end - i);
  store_some(right, dup + i, end - i);
}

void swiglu_grad(const KernelArgs& args) {
  const TensorView& gate = args.inputs[0];
  with_real(gate.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(gate.elems(), kElementGrain,
                               [&](int64_t begin, int64_t end, int) { swiglu_grad_range<T>(args, begin, end); });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(swiglu);
HWY_EXPORT(swiglu_grad);
void swiglu_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(swiglu)(args); }
void swiglu_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(swiglu_grad)(args); }
}  // namespace spillway::ops
#endif
