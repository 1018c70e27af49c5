#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/sgd/sgd_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/sgd/numbers.h"
#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct SgdFormula {
  Vector learning_rate, weight_decay, momentum, taken;
  bool nesterov;

  HWY_INLINE Vector operator()(Vector p, Vector g, Vector* state) const {
    const Vector decayed = hn::Add(hn::Mul(p, weight_decay), g);
    state[0] = hn::Add(hn::Mul(state[0], momentum), hn::Mul(decayed, taken));
    const Vector direction = nesterov ? hn::Add(decayed, hn::Mul(state[0], momentum)) : state[0];
    return hn::Sub(p, hn::Mul(learning_rate, direction));
  }
};

void sgd(const KernelArgs& args) {
  const SgdNumbers n =
      sgd_numbers(sgd_constants(args.attributes), *args.inputs[update_input::kLearningRate].as<float>(),
                  *args.inputs[update_input::kStep].as<int32_t>());
  const SgdFormula formula{.learning_rate = constant(n.learning_rate),
                           .weight_decay = constant(n.weight_decay),
                           .momentum = constant(n.momentum),
                           .taken = constant(n.taken),
                           .nesterov = n.nesterov};
  if (n.momentum == 0) {
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
