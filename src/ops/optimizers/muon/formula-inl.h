// The last part of Muon's update: the weight moves along the direction that its gradient became. The kernels are bound
// by memory: 12 bytes per parameter with a bf16 direction and working copy.
#if defined(SPILLWAY_OPS_MUON_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_MUON_FORMULA_INL_H
#undef SPILLWAY_OPS_MUON_FORMULA_INL_H
#else
#define SPILLWAY_OPS_MUON_FORMULA_INL_H
#endif

#include "ops/optimizers/formula-inl.h"

SPILLWAY_FORMULAS_BEGIN

struct MuonFormula {
  static constexpr int kStates = 0;
  static constexpr bool kMadeOnce = false;

  struct Options {
    double factor, weight_decay;

    explicit Options(const Attributes& a) : factor(a.real("factor")), weight_decay(a.real("weight_decay")) {}
  };
  float decay, rate;

  SPILLWAY_EITHER_SIDE MuonFormula(const Options& o, const StepInputs& step)
      : decay(static_cast<float>(1 - double{step.learning_rate} * o.weight_decay)),
        rate(static_cast<float>(double{step.learning_rate} * o.factor)) {}

  SPILLWAY_NUMBER_FUNCTION Number operator()(Number p, Number direction, Number*) const {
    return p * decay - rate * direction;
  }
};

SPILLWAY_FORMULAS_END

SPILLWAY_UPDATE_KERNEL(muon, run_update<MuonFormula>(args))

#endif  // per-target include guard
