// Lion's formula. The kernels are bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy
// (read p, m, g; write p, m and the copy).
#if defined(SPILLWAY_OPS_LION_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_LION_FORMULA_INL_H
#undef SPILLWAY_OPS_LION_FORMULA_INL_H
#else
#define SPILLWAY_OPS_LION_FORMULA_INL_H
#endif

#include "ops/optimizers/formula-inl.h"

SPILLWAY_FORMULAS_BEGIN

struct LionFormula {
  static constexpr int kStates = 1;
  static constexpr bool kMadeOnce = false;

  struct Options {
    float weight_decay, beta1, one_minus_beta1, beta2, one_minus_beta2;

    explicit Options(const Attributes& a)
        : weight_decay(static_cast<float>(a.real("weight_decay"))),
          beta1(static_cast<float>(a.real("beta1"))),
          one_minus_beta1(static_cast<float>(1 - a.real("beta1"))),
          beta2(static_cast<float>(a.real("beta2"))),
          one_minus_beta2(static_cast<float>(1 - a.real("beta2"))) {}
  };
  Options options;
  float learning_rate, decay;

  SPILLWAY_EITHER_SIDE LionFormula(const Options& given, const StepInputs& step)
      : options(given), learning_rate(step.learning_rate), decay(1 - step.learning_rate * given.weight_decay) {}

  SPILLWAY_NUMBER_FUNCTION Number operator()(Number p, Number g, Number* state) const {
    Number& m = state[0];
    const Number direction = m * options.beta1 + g * options.one_minus_beta1;
    m = m * options.beta2 + g * options.one_minus_beta2;
    // There is no step if the direction is 0.
    const Number step = math::select(direction != 0, math::copy_sign(learning_rate, direction), 0);
    return p * decay - step;
  }
};

SPILLWAY_FORMULAS_END

SPILLWAY_UPDATE_KERNEL(lion, run_update<LionFormula>(args))

#endif  // per-target include guard
