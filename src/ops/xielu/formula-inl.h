// xIELU of one number and its slopes, for kernels of both devices.
#if defined(SPILLWAY_OPS_XIELU_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_XIELU_FORMULA_INL_H
#undef SPILLWAY_OPS_XIELU_FORMULA_INL_H
#else
#define SPILLWAY_OPS_XIELU_FORMULA_INL_H
#endif

#include <cmath>

#include "ops/number-inl.h"

SPILLWAY_FORMULAS_BEGIN

struct Xielu {
  float p, n;              // softplus(alpha_p), beta + softplus(alpha_n)
  float p_slope, n_slope;  // of softplus
  float beta, eps;

  SPILLWAY_EITHER_SIDE static float softplus(float x) { return fmaxf(x, 0) + log1pf(expf(-fabsf(x))); }
  SPILLWAY_EITHER_SIDE static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

  SPILLWAY_EITHER_SIDE static Xielu of(float alpha_p, float alpha_n, float beta, float eps) {
    return {softplus(alpha_p), beta + softplus(alpha_n), sigmoid(alpha_p), sigmoid(alpha_n), beta, eps};
  }

  // Returns e^z - 1 - z for z of at most 0. Where its terms would cancel it is z^2 times a series, whose coefficients
  // are 1 / 2!, 1 / 3!, ...; for z of [-1/2, 0] those left out are below the rounding of f32.
  SPILLWAY_NUMBER_FUNCTION static Number exp_tail(Number z) {
    Number series = 2.75573192e-6f;
    series = math::mul_add(series, z, 2.48015873e-5f);
    series = math::mul_add(series, z, 1.98412698e-4f);
    series = math::mul_add(series, z, 1.38888889e-3f);
    series = math::mul_add(series, z, 8.33333333e-3f);
    series = math::mul_add(series, z, 4.16666667e-2f);
    series = math::mul_add(series, z, 1.66666667e-1f);
    series = math::mul_add(series, z, 0.5f);
    return math::select(z < -0.5f, math::exp(z) - 1 - z, z * z * series);
  }
  // Returns min(x, eps), at most 0; NaN stays NaN.
  SPILLWAY_NUMBER_FUNCTION Number below(Number x) const {
    const Number negative = math::select(Number(0) < x, 0, x);
    return math::select(Number(eps) < negative, eps, negative);
  }

  // Return what p and n are multiplied by.
  SPILLWAY_NUMBER_FUNCTION static Number of_p(Number x) { return math::select(Number(0) < x, x * x, 0); }
  SPILLWAY_NUMBER_FUNCTION Number of_n(Number x) const {
    const Number z = below(x);
    return math::select(Number(0) < x, 0, exp_tail(z) + (z - x));
  }

  SPILLWAY_NUMBER_FUNCTION Number value(Number x) const {
    return math::mul_add(x, beta, math::select(Number(0) < x, of_p(x) * p, of_n(x) * n));
  }
  SPILLWAY_NUMBER_FUNCTION Number slope(Number x) const {
    const Number z = below(x);
    const Number of_exp = math::select(x < eps, exp_tail(z) + z, -1);  // the slope of what n multiplies
    return math::select(Number(0) < x, x * (2 * p), of_exp * n) + beta;
  }
};

SPILLWAY_FORMULAS_END

#endif  // per-target include guard
