// The formula of AdamW with moments in 8 bits. The kernels are bound by memory: 18.1 bytes per parameter with f32
// gradients and a bf16 working copy (read p, g and the codes of m and v; write p, the copy and the codes), next to
// which decoding and encoding are not nothing: four look-ups, three divisions and a root.
#if defined(SPILLWAY_OPS_ADAMW_8BIT_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ADAMW_8BIT_FORMULA_INL_H
#undef SPILLWAY_OPS_ADAMW_8BIT_FORMULA_INL_H
#else
#define SPILLWAY_OPS_ADAMW_8BIT_FORMULA_INL_H
#endif

#include <cmath>

#include "ops/optimizers/adamw/formula-inl.h"
#include "ops/optimizers/block_codes.h"
#include "ops/optimizers/formula-inl.h"

SPILLWAY_FORMULAS_BEGIN

// With c1 = 1 - beta1^t and c2 = sqrt(1 - beta2^t): p += step_size * m / (sqrt(v) + eps), with eps times c2, then p *=
// decay.
struct alignas(16) Adamw8bitFormula {
  static constexpr int kStates = 2;
  static constexpr bool kMadeOnce = true;

  using Options = AdamwFormula::Options;
  float beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, eps, decay;

  SPILLWAY_EITHER_SIDE Adamw8bitFormula(const Options& o, const StepInputs& step) {
    const double rate = step.learning_rate;
    const double c1 = 1 - power(o.beta1, step.number), c2 = std::sqrt(1 - power(o.beta2, step.number));
    beta1 = static_cast<float>(o.beta1);
    one_minus_beta1 = static_cast<float>(1 - o.beta1);
    beta2 = static_cast<float>(o.beta2);
    one_minus_beta2 = static_cast<float>(1 - o.beta2);
    step_size = static_cast<float>(-rate * c2 / c1);
    eps = static_cast<float>(c2 * o.eps);
    decay = static_cast<float>(1 - rate * o.weight_decay);
  }

  SPILLWAY_NUMBER_FUNCTION Number operator()(Number p, Number g, Number* state) const {
    // A gradient that is not finite clears the moments and leaves the weight.
    const Truth is_number = math::is_finite(g);
    Number &m = state[0], &v = state[1];
    m = math::select(is_number, m * beta1 + g * one_minus_beta1, 0);
    v = math::select(is_number, v * beta2 + g * g * one_minus_beta2, 0);
    const Number step = step_size * (m / (math::sqrt(v) + eps));
    return math::select(is_number, (p + step) * decay, p);
  }
};

SPILLWAY_FORMULAS_END

SPILLWAY_UPDATE_KERNEL(adamw_8bit, run_block_update<Adamw8bitFormula>(args, {kBnbSigned, kBnbUnsigned}))

#endif  // per-target include guard
