// Adagrad's formula. The kernels are bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy
// (read p, sum, g; write p, sum and the copy).
#if defined(SPILLWAY_OPS_ADAGRAD_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ADAGRAD_FORMULA_INL_H
#undef SPILLWAY_OPS_ADAGRAD_FORMULA_INL_H
#else
#define SPILLWAY_OPS_ADAGRAD_FORMULA_INL_H
#endif

#include "ops/optimizers/formula-inl.h"

SPILLWAY_FORMULAS_BEGIN

struct alignas(16) AdagradFormula {
  static constexpr int kStates = 1;
  static constexpr bool kMadeOnce = true;

  struct Options {
    double lr_decay, eps, weight_decay;

    explicit Options(const Attributes& a)
        : lr_decay(a.real("lr_decay")), eps(a.real("eps")), weight_decay(a.real("weight_decay")) {}
  };
  float rate, eps, weight_decay;

  SPILLWAY_EITHER_SIDE AdagradFormula(const Options& o, const StepInputs& step)
      : rate(static_cast<float>(step.learning_rate / (1 + (step.number - 1) * o.lr_decay))),
        eps(static_cast<float>(o.eps)),
        weight_decay(static_cast<float>(o.weight_decay)) {}

  SPILLWAY_NUMBER_FUNCTION Number operator()(Number p, Number g, Number* state) const {
    const Number decayed = g + p * weight_decay;
    Number& sum = state[0];
    sum = sum + decayed * decayed;
    return p - rate * (decayed / (math::sqrt(sum) + eps));
  }
};

SPILLWAY_FORMULAS_END

SPILLWAY_UPDATE_KERNEL(adagrad, run_update<AdagradFormula>(args))

#endif  // per-target include guard
