// The activation of one gate and its up, and its slopes, for kernels of both devices.
#if defined(SPILLWAY_OPS_CLAMPED_SWIGLU_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_CLAMPED_SWIGLU_FORMULA_INL_H
#undef SPILLWAY_OPS_CLAMPED_SWIGLU_FORMULA_INL_H
#else
#define SPILLWAY_OPS_CLAMPED_SWIGLU_FORMULA_INL_H
#endif

#include "graph/attributes.h"
#include "ops/activation/functions-inl.h"
#include "ops/number-inl.h"

SPILLWAY_FORMULAS_BEGIN

struct ClampedSwiglu {
  float alpha, limit;

  // Return what they are clamped to; NaN stays NaN.
  SPILLWAY_NUMBER_FUNCTION Number gate(Number x) const { return math::select(Number(limit) < x, limit, x); }
  SPILLWAY_NUMBER_FUNCTION Number up(Number x) const {
    const Number below = gate(x);
    return math::select(below < -limit, -limit, below);
  }

  SPILLWAY_NUMBER_FUNCTION Number value(Number of_gate, Number of_up) const {
    const Number g = gate(of_gate);
    return (up(of_up) + 1) * g * logistic(g * alpha);
  }
  // Writes the gradients of gate and up. At a bound they are those inside, as torch has them.
  SPILLWAY_NUMBER_FUNCTION void gradients(Number of_gate, Number of_up, Number dy, Number* dgate, Number* dup) const {
    const Number g = gate(of_gate), s = logistic(g * alpha);
    const Number slope = s * math::mul_add(g * alpha, 1 - s, 1);
    *dgate = math::select(Number(limit) < of_gate, 0, dy * (up(of_up) + 1) * slope);
    *dup = math::select(Number(limit) < math::abs(of_up), 0, dy * g * s);
  }
};

[[nodiscard]] inline ClampedSwiglu clamped_swiglu_of(const Attributes& attributes) {
  return {static_cast<float>(attributes.real("alpha")), static_cast<float>(attributes.real("limit"))};
}

SPILLWAY_FORMULAS_END

#endif  // per-target include guard
