// AdamW's formula for a vector of elements, for files that Highway compiles once for each instruction set (see
// ops/simd.h).
#if defined(SPILLWAY_OPS_ADAMW_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ADAMW_FORMULA_INL_H
#undef SPILLWAY_OPS_ADAMW_FORMULA_INL_H
#else
#define SPILLWAY_OPS_ADAMW_FORMULA_INL_H
#endif

#include "ops/optimizers/adamw/numbers.h"
#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct AdamwFormula {
  explicit AdamwFormula(const AdamwNumbers& n)
      : beta2(constant(n.beta2)),
        one_minus_beta1(constant(n.one_minus_beta1)),
        one_minus_beta2(constant(n.one_minus_beta2)),
        decay(constant(n.decay)),
        minus_step_size(constant(n.minus_step_size)),
        inverse_root_correction(constant(n.inverse_root_correction)),
        eps(constant(n.eps)) {}

  HWY_INLINE Vector operator()(Vector p, Vector g, Vector* state) const {
    Vector &m = state[0], &v = state[1];
    m = hn::Add(m, hn::Mul(hn::Sub(g, m), one_minus_beta1));
    v = hn::Add(hn::Mul(v, beta2), hn::Mul(hn::Mul(g, g), one_minus_beta2));
    const Vector denominator = hn::Add(hn::Mul(hn::Sqrt(v), inverse_root_correction), eps);
    return hn::Add(hn::Mul(p, decay), hn::Mul(minus_step_size, hn::Div(m, denominator)));
  }

  Vector beta2, one_minus_beta1, one_minus_beta2, decay, minus_step_size, inverse_root_correction, eps;
};

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
