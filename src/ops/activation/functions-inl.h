// The activations of one number and their slopes, for operations on an activation alone and for gated ones. On a GPU
// products are fused with sums, and exponentials are the device's.
#if defined(SPILLWAY_OPS_ACTIVATION_FUNCTIONS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ACTIVATION_FUNCTIONS_INL_H
#undef SPILLWAY_OPS_ACTIVATION_FUNCTIONS_INL_H
#else
#define SPILLWAY_OPS_ACTIVATION_FUNCTIONS_INL_H
#endif

#include <iterator>

#include "ops/activation/kinds.h"
#include "ops/number-inl.h"

SPILLWAY_FORMULAS_BEGIN

// Returns 1 / (1 + exp(-x)), without overflow on either side.
SPILLWAY_NUMBER_FUNCTION Number logistic(Number x) {
  const Number small = math::exp(-math::abs(x));
  return math::select(x < 0, small, 1) / (1 + small);
}

// Each of these structs has the activation and its slope.
struct Silu {
  SPILLWAY_NUMBER_FUNCTION static Number value(Number x) { return x * logistic(x); }
  // Returns s (1 + x (1 - s)), s = sigmoid(x).
  SPILLWAY_NUMBER_FUNCTION static Number slope(Number x) {
    const Number s = logistic(x);
    return s * math::mul_add(x, 1 - s, 1);
  }
};

struct Gelu {
  // Returns Phi(x), and exp(-x^2 / 2) in `bell`.
  SPILLWAY_NUMBER_FUNCTION static Number distribution(Number x, Number* bell) {
#ifdef HWY_TARGET_INCLUDE
    // There is no erfc for vectors. Uses half of it on the side where it is small.
    const Number magnitude = math::abs(x);
    *bell = math::exp(magnitude * magnitude * -0.5f);
    const Number t = 1 / math::mul_add(magnitude, 0.5f * kHalfRoot, 1);
    Number polynomial = 0;
    for (int i = static_cast<int>(std::size(kErfcx)); i-- > 0;) polynomial = math::mul_add(polynomial, t, kErfcx[i]);
    const Number tail = polynomial * t * *bell * 0.5f;
    return math::select(x < 0, tail, 1 - tail);
#else
    *bell = expf(-0.5f * x * x);
    return 0.5f * erfcf(-x * kHalfRoot);
#endif
  }
  SPILLWAY_NUMBER_FUNCTION static Number value(Number x) {
    Number bell;
    return x * distribution(x, &bell);
  }
  // Returns Phi(x) + x Phi'(x).
  SPILLWAY_NUMBER_FUNCTION static Number slope(Number x) {
    Number bell;
    const Number phi = distribution(x, &bell);
    return math::mul_add(x * kNormalDensity, bell, phi);
  }
};

struct GeluTanh {
  // Returns sigmoid(2 u).
  SPILLWAY_NUMBER_FUNCTION static Number weight(Number x) {
    return logistic(x * (2 * kGeluRoot) * math::mul_add(x * x, kGeluCube, 1));
  }
  SPILLWAY_NUMBER_FUNCTION static Number value(Number x) { return x * weight(x); }
  // Returns s + x s (1 - s) 2 u'.
  SPILLWAY_NUMBER_FUNCTION static Number slope(Number x) {
    const Number s = weight(x);
    const Number inner = math::mul_add(x * x, 6 * kGeluRoot * kGeluCube, 2 * kGeluRoot);
    // The change is 0 far from 0, where `inner` may have overflowed.
    const Number change = math::select(math::abs(x) < 16, s * (1 - s) * inner, 0);
    return math::mul_add(x, change, s);
  }
};

// The square of relu; NaN stays NaN.
struct ReluSquared {
  SPILLWAY_NUMBER_FUNCTION static Number positive(Number x) { return math::select(x < 0, 0, x); }
  SPILLWAY_NUMBER_FUNCTION static Number value(Number x) { return positive(x) * positive(x); }
  SPILLWAY_NUMBER_FUNCTION static Number slope(Number x) { return 2 * positive(x); }
};

// The two structs below are for gates alone.
struct Sigmoid {
  SPILLWAY_NUMBER_FUNCTION static Number value(Number x) { return logistic(x); }
  SPILLWAY_NUMBER_FUNCTION static Number slope(Number x) {
    const Number s = logistic(x);
    return s * (1 - s);
  }
};
struct Identity {
  SPILLWAY_NUMBER_FUNCTION static Number value(Number x) { return x; }
  SPILLWAY_NUMBER_FUNCTION static Number slope(Number) { return 1; }
};

// Calls f with an object of the activation that the operation computes.
template <typename Function>
void with_activation(const KernelArgs& args, const Function& f) {
  switch (activation_of(args)) {
    case ActivationKind::kSilu:
      return f(Silu());
    case ActivationKind::kGelu:
      return f(Gelu());
    case ActivationKind::kGeluTanh:
      return f(GeluTanh());
    case ActivationKind::kReluSquared:
      return f(ReluSquared());
  }
}

SPILLWAY_FORMULAS_END

#endif  // per-target include guard
