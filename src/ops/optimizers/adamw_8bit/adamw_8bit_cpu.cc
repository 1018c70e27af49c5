// The kernels are bound by memory: 18.1 bytes per parameter with f32 gradients and a bf16 working copy (read p, g and
// the codes of m and v; write p, the copy and the codes), next to which decoding and encoding are not nothing: four
// look-ups, three divisions and a root.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/adamw_8bit/adamw_8bit_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/adamw_8bit/numbers.h"
#include "ops/optimizers/block_update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct Adamw8bitFormula {
  explicit Adamw8bitFormula(const Adamw8bitNumbers& n)
      : beta1(constant(n.beta1)),
        one_minus_beta1(constant(n.one_minus_beta1)),
        beta2(constant(n.beta2)),
        one_minus_beta2(constant(n.one_minus_beta2)),
        step_size(constant(n.step_size)),
        eps(constant(n.eps)),
        decay(constant(n.decay)) {}

  HWY_INLINE Vector operator()(Vector p, Vector g, Vector* state) const {
    // A gradient that is not finite clears the moments and leaves the weight.
    const auto is_number = hn::IsFinite(g);
    Vector &m = state[0], &v = state[1];
    m = hn::Add(hn::Mul(m, beta1), hn::Mul(g, one_minus_beta1));
    v = hn::Add(hn::Mul(v, beta2), hn::Mul(hn::Mul(g, g), one_minus_beta2));
    m = hn::IfThenElseZero(is_number, m);
    v = hn::IfThenElseZero(is_number, v);
    const Vector step = hn::Mul(step_size, hn::Div(m, hn::Add(hn::Sqrt(v), eps)));
    return hn::IfThenElse(is_number, hn::Mul(hn::Add(p, step), decay), p);
  }

  Vector beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, eps, decay;
};

void adamw_8bit(const KernelArgs& args) {
  const Adamw8bitNumbers numbers =
      adamw_8bit_numbers(adamw_constants(args.attributes), *args.inputs[update_input::kLearningRate].as<float>(),
                         *args.inputs[update_input::kStep].as<int32_t>());
  run_block_update<2>(args, Adamw8bitFormula(numbers), {kBnbSigned, kBnbUnsigned});
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(adamw_8bit);
void adamw_8bit_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(adamw_8bit)(args); }
}  // namespace spillway::ops
#endif
