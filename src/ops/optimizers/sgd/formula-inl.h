// The formula of SGD. The kernels are bound by memory: 22 bytes per parameter with momentum, f32 gradients and a bf16
// working copy (read p, momentum, g; write p, momentum and the copy).
#if defined(SPILLWAY_OPS_SGD_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_SGD_FORMULA_INL_H
#undef SPILLWAY_OPS_SGD_FORMULA_INL_H
#else
#define SPILLWAY_OPS_SGD_FORMULA_INL_H
#endif

#include "ops/optimizers/formula-inl.h"

SPILLWAY_FORMULAS_BEGIN

// Without momentum, `state` is a number for the formula itself.
template <bool kMomentum>
struct SgdFormula {
  static constexpr int kStates = kMomentum ? 1 : 0;
  static constexpr bool kMadeOnce = false;

  struct Options {
    float momentum, undampened, weight_decay;
    bool nesterov;

    explicit Options(const Attributes& a)
        : momentum(static_cast<float>(a.real("momentum"))),
          undampened(static_cast<float>(1 - a.real("dampening"))),
          weight_decay(static_cast<float>(a.real("weight_decay"))),
          nesterov(a.real("nesterov") != 0) {}
  };
  Options options;
  float learning_rate;
  float taken;  // the part of a gradient that the momentum takes: 1 - dampening, but all of the first

  SPILLWAY_EITHER_SIDE SgdFormula(const Options& given, const StepInputs& step)
      : options(given),
        learning_rate(step.learning_rate),
        taken(step.number == 1 || !kMomentum ? 1.0F : given.undampened) {}

  SPILLWAY_NUMBER_FUNCTION Number operator()(Number p, Number g, Number* state) const {
    const Number decayed = p * options.weight_decay + g;
    state[0] = state[0] * options.momentum + decayed * taken;
    const Number direction = options.nesterov ? decayed + state[0] * options.momentum : state[0];
    return p - learning_rate * direction;
  }
};

SPILLWAY_FORMULAS_END

SPILLWAY_UPDATE_KERNEL(sgd, args.attributes.real("momentum") != 0 ? run_update<SgdFormula<true>>(args)
                                                                  : run_update<SgdFormula<false>>(args))

#endif  // per-target include guard
