// The kernels are bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy (read p, sum, g;
// write p, sum and the copy).
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/adagrad/adagrad_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/adagrad/numbers.h"
#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct AdagradFormula {
  Vector rate, eps, weight_decay;

  HWY_INLINE Vector operator()(Vector p, Vector g, Vector* state) const {
    const Vector decayed = hn::Add(g, hn::Mul(p, weight_decay));
    Vector& sum = state[0];
    sum = hn::Add(sum, hn::Mul(decayed, decayed));
    return hn::Sub(p, hn::Mul(rate, hn::Div(decayed, hn::Add(hn::Sqrt(sum), eps))));
  }
};

void adagrad(const KernelArgs& args) {
  const AdagradNumbers n =
      adagrad_numbers(adagrad_constants(args.attributes), *args.inputs[update_input::kLearningRate].as<float>(),
                      *args.inputs[update_input::kStep].as<int32_t>());
  run_update<1>(args, AdagradFormula{constant(n.rate), constant(n.eps), constant(n.weight_decay)});
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(adagrad);
void adagrad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(adagrad)(args); }
}  // namespace spillway::ops
#endif
