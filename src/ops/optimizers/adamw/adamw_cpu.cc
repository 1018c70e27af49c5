// Bound by memory: 28 bytes per parameter with f32 gradients and a bf16 working copy (read p, m, v, g; write p, m, v
// and the copy), next to which the arithmetic is nothing.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/adamw/adamw_cpu.cc"
#include <hwy/foreach_target.h>

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

void adamw(const KernelArgs& args) {
  const AdamwNumbers numbers =
      adamw_numbers(adamw_options(args.attributes), *args.inputs[update_input::kLearningRate].as<float>(),
                    *args.inputs[update_input::kStep].as<int32_t>());
  run_update<2>(args, AdamwFormula(numbers));
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(adamw);
void adamw_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(adamw)(args); }
}  // namespace spillway::ops
#endif
