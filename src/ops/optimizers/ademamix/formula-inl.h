// AdEMAMix' formula. The kernels are bound by memory: 38 bytes per parameter with f32 gradients and a bf16 working copy
// (read p, three moments, g; write p, the moments and the copy); 20.1 with moments in 8 bits.
#if defined(SPILLWAY_OPS_ADEMAMIX_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ADEMAMIX_FORMULA_INL_H
#undef SPILLWAY_OPS_ADEMAMIX_FORMULA_INL_H
#else
#define SPILLWAY_OPS_ADEMAMIX_FORMULA_INL_H
#endif

#include <cmath>

#include "ops/optimizers/block_codes.h"
#include "ops/optimizers/formula-inl.h"

SPILLWAY_FORMULAS_BEGIN

// With c1 = 1 - beta1^t, c2 = sqrt(1 - beta2^t): p -= learning_rate * (m / c1 + alpha * slow) / (sqrt(v) / c2 + eps).
template <bool kIn8bits>
struct alignas(16) AdemamixFormula {
  static constexpr int kStates = 3;
  static constexpr bool kMadeOnce = true;

  struct Options {
    double beta1, beta2, beta3, alpha, t_beta3, t_alpha, eps, weight_decay;

    explicit Options(const Attributes& a)
        : beta1(a.real("beta1")),
          beta2(a.real("beta2")),
          beta3(a.real("beta3")),
          alpha(a.real("alpha")),
          t_beta3(a.real("t_beta3")),
          t_alpha(a.real("t_alpha")),
          eps(a.real("eps")),
          weight_decay(a.real("weight_decay")) {}

    // Return the values of a step: alpha rises from 0 over t_alpha steps, beta3 from beta1 over t_beta3, by its
    // half-life. If these are 0, the values are constant.
    [[nodiscard]] SPILLWAY_EITHER_SIDE double alpha_of(int32_t step) const {
      return step < t_alpha ? step * alpha / t_alpha : alpha;
    }
    [[nodiscard]] SPILLWAY_EITHER_SIDE double beta3_of(int32_t step) const {
      if (!(step < t_beta3) || !(beta1 > 0) || !(beta3 > beta1)) return beta3;
      const double part = step / t_beta3, log1 = logarithm(beta1), log3 = logarithm(beta3);
      return exponential(log1 * log3 / ((1 - part) * log3 + part * log1));
    }
  };
  float beta1, one_minus_beta1, beta2, one_minus_beta2, beta3, one_minus_beta3;
  float inverse_correction1, inverse_root_correction2, alpha, eps, learning_rate, decay;

  SPILLWAY_EITHER_SIDE AdemamixFormula(const Options& o, const StepInputs& step) {
    const double beta3_of_step = o.beta3_of(step.number);
    beta1 = static_cast<float>(o.beta1);
    one_minus_beta1 = static_cast<float>(1 - o.beta1);
    beta2 = static_cast<float>(o.beta2);
    one_minus_beta2 = static_cast<float>(1 - o.beta2);
    beta3 = static_cast<float>(beta3_of_step);
    one_minus_beta3 = static_cast<float>(1 - beta3_of_step);
    inverse_correction1 = static_cast<float>(1 / (1 - power(o.beta1, step.number)));
    inverse_root_correction2 = static_cast<float>(1 / std::sqrt(1 - power(o.beta2, step.number)));
    alpha = static_cast<float>(o.alpha_of(step.number));
    eps = static_cast<float>(o.eps);
    learning_rate = step.learning_rate;
    decay = static_cast<float>(1 - double{step.learning_rate} * o.weight_decay);
  }

  SPILLWAY_NUMBER_FUNCTION Number operator()(Number p, Number g, Number* state) const {
    Number &m = state[0], &slow = state[1], &v = state[2];
    m = m * beta1 + g * one_minus_beta1;
    slow = slow * beta3 + g * one_minus_beta3;
    v = v * beta2 + g * g * one_minus_beta2;
    const Number mixed = m * inverse_correction1 + alpha * slow;
    const Number step = learning_rate * (mixed / (math::sqrt(v) * inverse_root_correction2 + eps));
    if constexpr (!kIn8bits) return p * decay - step;
    // A gradient that is not finite clears the moments and leaves the weight.
    const Truth is_number = math::is_finite(g);
    for (int s = 0; s < 3; ++s) state[s] = math::select(is_number, state[s], 0);
    return math::select(is_number, (p - step) * decay, p);
  }
};

SPILLWAY_FORMULAS_END

SPILLWAY_UPDATE_KERNEL(ademamix, run_update<AdemamixFormula<false>>(args))
SPILLWAY_UPDATE_KERNEL(ademamix_8bit,
                       run_block_update<AdemamixFormula<true>>(args, {kBnbSigned, kBnbSigned, kBnbUnsigned}))

#endif  // per-target include guard
