// Lion's formula for a vector of elements, for files that Highway compiles once for each instruction set (see
// ops/simd.h).
#if defined(SPILLWAY_OPS_LION_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_LION_FORMULA_INL_H
#undef SPILLWAY_OPS_LION_FORMULA_INL_H
#else
#define SPILLWAY_OPS_LION_FORMULA_INL_H
#endif

#include "ops/optimizers/lion/numbers.h"
#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct LionFormula {
  LionFormula(const LionNumbers& n, float rate)
      : learning_rate(constant(rate)),
        decay(constant(1 - rate * n.weight_decay)),
        beta1(constant(n.beta1)),
        one_minus_beta1(constant(n.one_minus_beta1)),
        beta2(constant(n.beta2)),
        one_minus_beta2(constant(n.one_minus_beta2)) {}
  explicit LionFormula(const KernelArgs& args)
      : LionFormula(lion_numbers(args.attributes), *args.inputs[update_input::kLearningRate].as<float>()) {}

  HWY_INLINE Vector operator()(Vector p, Vector g, Vector* state) const {
    Vector& m = state[0];
    const Vector direction = hn::Add(hn::Mul(m, beta1), hn::Mul(g, one_minus_beta1));
    m = hn::Add(hn::Mul(m, beta2), hn::Mul(g, one_minus_beta2));
    const Vector decayed = hn::Mul(p, decay);
    // There is no step if the direction is 0.
    const Vector step = hn::IfThenElseZero(hn::Ne(direction, zero()), hn::CopySign(learning_rate, direction));
    return hn::Sub(decayed, step);
  }

  Vector learning_rate, decay, beta1, one_minus_beta1, beta2, one_minus_beta2;
};

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
