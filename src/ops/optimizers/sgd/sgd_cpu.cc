#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/sgd/sgd_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct SgdFormula {
  Vector learning_rate, weight_decay, momentum;

  HWY_INLINE Vector operator()(Vector p, Vector g, Vector* state) const {
    const Vector decayed = hn::Add(hn::Mul(p, weight_decay), g);
    state[0] = hn::Add(hn::Mul(state[0], momentum), decayed);
    return hn::Sub(p, hn::Mul(learning_rate, state[0]));
  }
};

void sgd(const KernelArgs& args) {
  const double momentum = args.attributes.real("momentum");
  const SgdFormula formula{.learning_rate = constant(*args.inputs[update_input::kLearningRate].as<float>()),
                           .weight_decay = constant(static_cast<float>(args.attributes.real("weight_decay"))),
                           .momentum = constant(static_cast<float>(momentum))};
  if (momentum == 0) {
    run_update<0>(args, formula);
  } else {
    run_update<1>(args, formula);
  }
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(sgd);
void sgd_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(sgd)(args); }
}  // namespace spillway::ops
#endif
