// The formula of schedule-free AdamW. The kernels are bound by memory: 30 bytes per parameter with f32 gradients and a
// bf16 working copy (read p, z - y, v, g; write p, z - y, v and the copy).
#if defined(SPILLWAY_OPS_SCHEDULE_FREE_ADAMW_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_SCHEDULE_FREE_ADAMW_FORMULA_INL_H
#undef SPILLWAY_OPS_SCHEDULE_FREE_ADAMW_FORMULA_INL_H
#else
#define SPILLWAY_OPS_SCHEDULE_FREE_ADAMW_FORMULA_INL_H
#endif

#include <cmath>

#include "ops/optimizers/formula-inl.h"
#include "ops/optimizers/schedule_free_adamw/numbers.h"

SPILLWAY_FORMULAS_BEGIN

struct alignas(16) ScheduleFreeFormula {
  static constexpr int kStates = 2;
  static constexpr bool kMadeOnce = true;

  struct Options {
    double beta1, beta2, eps, weight_decay;

    explicit Options(const Attributes& a)
        : beta1(a.real("beta1")), beta2(a.real("beta2")), eps(a.real("eps")), weight_decay(a.real("weight_decay")) {}
  };
  float beta2, one_minus_beta2, inverse_root_correction, eps, weight_decay;
  float share, rest;     // c, 1 - c
  float y_rate, z_rate;  // the factors of the direction in y and z - y

  SPILLWAY_EITHER_SIDE ScheduleFreeFormula(const Options& o, const StepInputs& step) {
    const float steps = reinterpret_cast<const AverageState*>(step.state)->steps;
    const double c = steps > 0 ? 1.0 / steps : 0.0, rate = step.learning_rate;
    beta2 = static_cast<float>(o.beta2);
    one_minus_beta2 = static_cast<float>(1 - o.beta2);
    inverse_root_correction = static_cast<float>(1 / std::sqrt(1 - power(o.beta2, step.number)));
    eps = static_cast<float>(o.eps);
    weight_decay = static_cast<float>(o.weight_decay);
    share = static_cast<float>(c);
    rest = static_cast<float>(1 - c);
    y_rate = static_cast<float>(rate * (1 - o.beta1 * (1 - c)));
    z_rate = static_cast<float>(rate * o.beta1 * (1 - c));
  }

  SPILLWAY_NUMBER_FUNCTION Number operator()(Number y, Number g, Number* state) const {
    Number &difference = state[0], &v = state[1];
    v = v * beta2 + g * g * one_minus_beta2;
    const Number denominator = math::sqrt(v) * inverse_root_correction + eps;
    const Number direction = g / denominator + y * weight_decay;
    const Number nearer = y + difference * share;
    difference = difference * rest - direction * z_rate;
    return nearer - direction * y_rate;
  }
};

SPILLWAY_FORMULAS_END

SPILLWAY_UPDATE_KERNEL(schedule_free_adamw, run_update<ScheduleFreeFormula>(args))

#endif  // per-target include guard
