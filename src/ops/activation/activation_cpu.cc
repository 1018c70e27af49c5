#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/activation/activation_cpu.cc"
#include <hwy/foreach_target.h>

#include <iterator>

#include "ops/activation/kinds.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Each has the activation and its slope.
struct Silu {
  HWY_INLINE static Vector value(Vector x) { return hn::Mul(x, sigmoid(x)); }
  // s (1 + x (1 - s)), s = sigmoid(x).
  HWY_INLINE static Vector slope(Vector x) {
    const Vector s = sigmoid(x);
    return hn::Mul(s, hn::MulAdd(x, hn::Sub(constant(1), s), constant(1)));
  }
};

struct Gelu {
  // exp(-x^2 / 2) in `bell`, Phi(x) as the result: by half of erfc on the side where it is small.
  HWY_INLINE static Vector distribution(Vector x, Vector* bell) {
    const Vector magnitude = hn::Abs(x);
    *bell = hn::Exp(Floats(), hn::Mul(hn::Mul(magnitude, magnitude), constant(-0.5f)));
    const Vector t = hn::Div(constant(1), hn::MulAdd(magnitude, constant(0.5f * kHalfRoot), constant(1)));
    Vector polynomial = zero();
    for (int i = static_cast<int>(std::size(kErfcx)); i-- > 0;)
      polynomial = hn::MulAdd(polynomial, t, constant(kErfcx[i]));
    const Vector tail = hn::Mul(hn::Mul(hn::Mul(polynomial, t), *bell), constant(0.5f));
    return hn::IfThenElse(hn::Lt(x, zero()), tail, hn::Sub(constant(1), tail));
  }
  HWY_INLINE static Vector value(Vector x) {
    Vector bell;
    return hn::Mul(x, distribution(x, &bell));
  }
  // Phi(x) + x Phi'(x).
  HWY_INLINE static Vector slope(Vector x) {
    Vector bell;
    const Vector phi = distribution(x, &bell);
    return hn::MulAdd(hn::Mul(x, constant(kNormalDensity)), bell, phi);
  }
};

struct GeluTanh {
  // sigmoid(2 u).
  HWY_INLINE static Vector weight(Vector x) {
    const Vector cubed = hn::MulAdd(hn::Mul(x, x), constant(kGeluCube), constant(1));
    return sigmoid(hn::Mul(hn::Mul(x, constant(2 * kGeluRoot)), cubed));
  }
  HWY_INLINE static Vector value(Vector x) { return hn::Mul(x, weight(x)); }
  // s + x s (1 - s) 2 u'.
  HWY_INLINE static Vector slope(Vector x) {
    const Vector s = weight(x);
    const Vector inner = hn::MulAdd(hn::Mul(x, x), constant(6 * kGeluRoot * kGeluCube), constant(2 * kGeluRoot));
    const Vector change = hn::Mul(hn::Mul(s, hn::Sub(constant(1), s)), inner);
    // Far from 0 it is 0, and `inner` may have overflowed.
    const Vector kept = hn::IfThenElseZero(hn::Lt(hn::Abs(x), constant(16)), change);
    return hn::MulAdd(x, kept, s);
  }
};

template <typename Function>
void with_kind(const KernelArgs& args, const Function& f) {
  switch (activation_of(args)) {
    case ActivationKind::kSilu:
      return f(Silu());
    case ActivationKind::kGelu:
      return f(Gelu());
    case ActivationKind::kGeluTanh:
      return f(GeluTanh());
  }
}

void activation(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  with_kind(args, [&]<typename F>(F) {
    with_real(x.dtype, [&]<typename T>(T*) {
      args.threads->parallel_for(x.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
        map(
            begin, end, [](Vector v) HWY_ATTR { return F::value(v); }, out.as<T>(), x.as<T>());
      });
    });
  });
}

void activation_grad(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &dy = args.inputs[1], &dx = args.outputs[0];
  with_kind(args, [&]<typename F>(F) {
    with_real(x.dtype, [&]<typename T>(T*) {
      args.threads->parallel_for(x.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
        const auto gradient = [](Vector v, Vector d) HWY_ATTR { return hn::Mul(d, F::slope(v)); };
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
