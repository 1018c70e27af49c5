// The activations of one number and their slopes, as vectors: for operations on an activation alone and for gated ones.
#if defined(SPILLWAY_OPS_ACTIVATION_FUNCTIONS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ACTIVATION_FUNCTIONS_INL_H
#undef SPILLWAY_OPS_ACTIVATION_FUNCTIONS_INL_H
#else
#define SPILLWAY_OPS_ACTIVATION_FUNCTIONS_INL_H
#endif

#include <iterator>

#include "ops/activation/kinds.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Each of these structs has the activation and its slope.
struct Silu {
  HWY_INLINE static Vector value(Vector x) { return hn::Mul(x, sigmoid(x)); }
  // Returns s (1 + x (1 - s)), s = sigmoid(x).
  HWY_INLINE static Vector slope(Vector x) {
    const Vector s = sigmoid(x);
    return hn::Mul(s, hn::MulAdd(x, hn::Sub(constant(1), s), constant(1)));
  }
};

struct Gelu {
  // Returns Phi(x), and exp(-x^2 / 2) in `bell`: uses half of erfc on the side where it is small.
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
  // Returns Phi(x) + x Phi'(x).
  HWY_INLINE static Vector slope(Vector x) {
    Vector bell;
    const Vector phi = distribution(x, &bell);
    return hn::MulAdd(hn::Mul(x, constant(kNormalDensity)), bell, phi);
  }
};

struct GeluTanh {
  // Returns sigmoid(2 u).
  HWY_INLINE static Vector weight(Vector x) {
    const Vector cubed = hn::MulAdd(hn::Mul(x, x), constant(kGeluCube), constant(1));
    return sigmoid(hn::Mul(hn::Mul(x, constant(2 * kGeluRoot)), cubed));
  }
  HWY_INLINE static Vector value(Vector x) { return hn::Mul(x, weight(x)); }
  // Returns s + x s (1 - s) 2 u'.
  HWY_INLINE static Vector slope(Vector x) {
    const Vector s = weight(x);
    const Vector inner = hn::MulAdd(hn::Mul(x, x), constant(6 * kGeluRoot * kGeluCube), constant(2 * kGeluRoot));
    const Vector change = hn::Mul(hn::Mul(s, hn::Sub(constant(1), s)), inner);
    // The change is 0 far from 0, where `inner` may have overflowed.
    const Vector kept = hn::IfThenElseZero(hn::Lt(hn::Abs(x), constant(16)), change);
    return hn::MulAdd(x, kept, s);
  }
};

// The square of relu; NaN stays NaN.
struct ReluSquared {
  HWY_INLINE static Vector positive(Vector x) { return hn::IfThenElse(hn::Lt(x, zero()), zero(), x); }
  HWY_INLINE static Vector value(Vector x) { return hn::Mul(positive(x), positive(x)); }
  HWY_INLINE static Vector slope(Vector x) { return hn::Mul(constant(2), positive(x)); }
};

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
