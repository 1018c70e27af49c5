// AdamW's formula. The kernels are bound by memory: 28 bytes per parameter with f32 gradients and a bf16 working copy
// (read p, m, v, g; write p, m, v and the copy), next to which the arithmetic is nothing.
#if defined(SPILLWAY_OPS_ADAMW_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ADAMW_FORMULA_INL_H
#undef SPILLWAY_OPS_ADAMW_FORMULA_INL_H
#else
#define SPILLWAY_OPS_ADAMW_FORMULA_INL_H
#endif

#include <cmath>

#include "ops/optimizers/formula-inl.h"

SPILLWAY_FORMULAS_BEGIN

struct alignas(16) AdamwFormula {
  static constexpr int kStates = 2;
  static constexpr bool kMadeOnce = true;

  struct Options {
    double beta1, beta2, eps, weight_decay;

    explicit Options(const Attributes& a)
        : beta1(a.real("beta1")), beta2(a.real("beta2")), eps(a.real("eps")), weight_decay(a.real("weight_decay")) {}
  };
  float beta2, one_minus_beta1, one_minus_beta2, decay, minus_step_size, inverse_root_correction, eps;

  SPILLWAY_EITHER_SIDE AdamwFormula(const Options& o, const StepInputs& step)
      : beta2(static_cast<float>(o.beta2)),
        one_minus_beta1(static_cast<float>(1 - o.beta1)),
        one_minus_beta2(static_cast<float>(1 - o.beta2)),
        decay(static_cast<float>(1 - double{step.learning_rate} * o.weight_decay)),
        minus_step_size(static_cast<float>(-double{step.learning_rate} / (1 - power(o.beta1, step.number)))),
        inverse_root_correction(static_cast<float>(1 / std::sqrt(1 - power(o.beta2, step.number)))),
        eps(static_cast<float>(o.eps)) {}

  SPILLWAY_NUMBER_FUNCTION Number operator()(Number p, Number g, Number* state) const {
    Number &m = state[0], &v = state[1];
    m = m + (g - m) * one_minus_beta1;
    v = v * beta2 + g * g * one_minus_beta2;
    const Number denominator = math::sqrt(v) * inverse_root_correction + eps;
    return p * decay + minus_step_size * (m / denominator);
  }
};

SPILLWAY_FORMULAS_END

SPILLWAY_UPDATE_KERNEL(adamw, run_update<AdamwFormula>(args))

#endif  // per-target include guard
