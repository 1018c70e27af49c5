// Bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy (read p, m, g; write p, m and the
// copy).
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/lion/lion_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/lion/numbers.h"
#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct LionFormula {
  Vector learning_rate, decay, beta1, one_minus_beta1, beta2, one_minus_beta2;

  HWY_INLINE Vector operator()(Vector p, Vector g, Vector* state) const {
    Vector& m = state[0];
    const Vector direction = hn::Add(hn::Mul(m, beta1), hn::Mul(g, one_minus_beta1));
    m = hn::Add(hn::Mul(m, beta2), hn::Mul(g, one_minus_beta2));
    const Vector decayed = hn::Mul(p, decay);
    // No step where the direction is 0.
    const Vector step = hn::IfThenElseZero(hn::Ne(direction, zero()), hn::CopySign(learning_rate, direction));
    return hn::Sub(decayed, step);
  }
};

void lion(const KernelArgs& args) {
  const LionNumbers n = lion_numbers(args.attributes);
  const float rate = *args.inputs[update_input::kLearningRate].as<float>();
  run_update<1>(args, LionFormula{.learning_rate = constant(rate),
                                  .decay = constant(1 - rate * n.weight_decay),
                                  .beta1 = constant(n.beta1),
                                  .one_minus_beta1 = constant(n.one_minus_beta1),
                                  .beta2 = constant(n.beta2),
                                  .one_minus_beta2 = constant(n.one_minus_beta2)});
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(lion);
void lion_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(lion)(args); }
}  // namespace spillway::ops
#endif
