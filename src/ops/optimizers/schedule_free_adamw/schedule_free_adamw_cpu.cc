// The kernels are bound by memory: 30 bytes per parameter with f32 gradients and a bf16 working copy (read p, z - y, v,
// g; write p, z - y, v and the copy).
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/schedule_free_adamw/schedule_free_adamw_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/schedule_free_adamw/numbers.h"
#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct ScheduleFreeFormula {
  explicit ScheduleFreeFormula(const ScheduleFreeNumbers& n)
      : beta2(constant(n.beta2)),
        one_minus_beta2(constant(n.one_minus_beta2)),
        inverse_root_correction(constant(n.inverse_root_correction)),
        eps(constant(n.eps)),
        weight_decay(constant(n.weight_decay)),
        share(constant(n.share)),
        rest(constant(n.rest)),
        y_rate(constant(n.y_rate)),
        z_rate(constant(n.z_rate)) {}

  HWY_INLINE Vector operator()(Vector y, Vector g, Vector* state) const {
    Vector &difference = state[0], &v = state[1];
    v = hn::Add(hn::Mul(v, beta2), hn::Mul(hn::Mul(g, g), one_minus_beta2));
    const Vector denominator = hn::Add(hn::Mul(hn::Sqrt(v), inverse_root_correction), eps);
    const Vector direction = hn::Add(hn::Div(g, denominator), hn::Mul(y, weight_decay));
    const Vector nearer = hn::Add(y, hn::Mul(difference, share));
    difference = hn::Sub(hn::Mul(difference, rest), hn::Mul(direction, z_rate));
    return hn::Sub(nearer, hn::Mul(direction, y_rate));
  }

  Vector beta2, one_minus_beta2, inverse_root_correction, eps, weight_decay, share, rest, y_rate, z_rate;
};

void schedule_free_adamw(const KernelArgs& args) {
  const ScheduleFreeNumbers numbers = schedule_free_numbers(
      schedule_free_constants(args.attributes), *args.inputs[update_input::kStepState].as<AverageState>(),
      *args.inputs[update_input::kLearningRate].as<float>(), *args.inputs[update_input::kStep].as<int32_t>());
  run_update<2>(args, ScheduleFreeFormula(numbers));
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {

void schedule_free_step_cpu(const KernelArgs& args) {
  using namespace schedule_free_step_op;
  *args.outputs[0].as<AverageState>() =
      next_average(average_constants(args.attributes), *args.inputs[kState].as<AverageState>(),
                   *args.inputs[kLearningRate].as<float>(), *args.inputs[kStep].as<int32_t>());
}

HWY_EXPORT(schedule_free_adamw);
void schedule_free_adamw_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(schedule_free_adamw)(args); }

}  // namespace spillway::ops
#endif
