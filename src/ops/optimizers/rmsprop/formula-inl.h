// RMSprop's formula. The kernels are bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy
// (read p, v, g; write p, v and the copy), and 8 more with momentum, and where centered.
#if defined(SPILLWAY_OPS_RMSPROP_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_RMSPROP_FORMULA_INL_H
#undef SPILLWAY_OPS_RMSPROP_FORMULA_INL_H
#else
#define SPILLWAY_OPS_RMSPROP_FORMULA_INL_H
#endif

#include "ops/optimizers/formula-inl.h"

SPILLWAY_FORMULAS_BEGIN

template <bool kMomentum, bool kCentered>
struct RmspropFormula {
  static constexpr int kStates = 1 + kMomentum + kCentered;
  static constexpr bool kMadeOnce = false;

  struct Options {
    float alpha, one_minus_alpha, eps, momentum, weight_decay;

    explicit Options(const Attributes& a)
        : alpha(static_cast<float>(a.real("alpha"))),
          one_minus_alpha(static_cast<float>(1 - a.real("alpha"))),
          eps(static_cast<float>(a.real("eps"))),
          momentum(static_cast<float>(a.real("momentum"))),
          weight_decay(static_cast<float>(a.real("weight_decay"))) {}
  };
  Options options;
  float learning_rate;

  SPILLWAY_EITHER_SIDE RmspropFormula(const Options& given, const StepInputs& step)
      : options(given), learning_rate(step.learning_rate) {}

  SPILLWAY_NUMBER_FUNCTION Number operator()(Number p, Number g, Number* state) const {
    const Number decayed = g + p * options.weight_decay;
    Number& square = state[0];
    square = square * options.alpha + decayed * decayed * options.one_minus_alpha;
    Number variance = square;
    if constexpr (kCentered) {
      Number& mean = state[kMomentum ? 2 : 1];
      mean = mean + (decayed - mean) * options.one_minus_alpha;
      // Rounding may leave it below zero, for which torch gives NaN; a negative variance counts as zero.
      variance = math::max(square - mean * mean, 0);
    }
    Number step = decayed / (math::sqrt(variance) + options.eps);
    if constexpr (kMomentum) {
      state[1] = state[1] * options.momentum + step;
      step = state[1];
    }
    return p - learning_rate * step;
  }
};

// Calls the update for the states that the options ask for.
template <typename Run>
void with_rmsprop(const Attributes& attributes, const Run& run) {
  const bool has_momentum = attributes.real("momentum") != 0;
  if (attributes.real("centered") != 0) {
    has_momentum ? run.template operator()<RmspropFormula<true, true>>()
                 : run.template operator()<RmspropFormula<false, true>>();
  } else {
    has_momentum ? run.template operator()<RmspropFormula<true, false>>()
                 : run.template operator()<RmspropFormula<false, false>>();
  }
}

SPILLWAY_FORMULAS_END

SPILLWAY_UPDATE_KERNEL(rmsprop, with_rmsprop(args.attributes, [&]<typename F>() { run_update<F>(args); }))

#endif  // per-target include guard
