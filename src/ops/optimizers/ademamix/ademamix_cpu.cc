// The kernels are bound by memory: 38 bytes per parameter with f32 gradients and a bf16 working copy (read p, three
// moments, g; write p, the moments and the copy); 20.1 with moments in 8 bits.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/ademamix/ademamix_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/ademamix/numbers.h"
#include "ops/optimizers/block_update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

template <bool kIn8bits>
struct AdemamixFormula {
  explicit AdemamixFormula(const AdemamixNumbers& n)
      : beta1(constant(n.beta1)),
        one_minus_beta1(constant(n.one_minus_beta1)),
        beta2(constant(n.beta2)),
        one_minus_beta2(constant(n.one_minus_beta2)),
        beta3(constant(n.beta3)),
        one_minus_beta3(constant(n.one_minus_beta3)),
        inverse_correction1(constant(n.inverse_correction1)),
        inverse_root_correction2(constant(n.inverse_root_correction2)),
        alpha(constant(n.alpha)),
        eps(constant(n.eps)),
        learning_rate(constant(n.learning_rate)),
        decay(constant(n.decay)) {}

  HWY_INLINE Vector operator()(Vector p, Vector g, Vector* state) const {
    Vector &m = state[0], &slow = state[1], &v = state[2];
    m = hn::Add(hn::Mul(m, beta1), hn::Mul(g, one_minus_beta1));
    slow = hn::Add(hn::Mul(slow, beta3), hn::Mul(g, one_minus_beta3));
    v = hn::Add(hn::Mul(v, beta2), hn::Mul(hn::Mul(g, g), one_minus_beta2));
    const Vector mixed = hn::Add(hn::Mul(m, inverse_correction1), hn::Mul(alpha, slow));
    const Vector step =
        hn::Mul(learning_rate, hn::Div(mixed, hn::Add(hn::Mul(hn::Sqrt(v), inverse_root_correction2), eps)));
    if constexpr (!kIn8bits) return hn::Sub(hn::Mul(p, decay), step);
    // A gradient that is not finite clears the moments and leaves the weight.
    const auto is_number = hn::IsFinite(g);
    for (int s = 0; s < 3; ++s) state[s] = hn::IfThenElseZero(is_number, state[s]);
    return hn::IfThenElse(is_number, hn::Mul(hn::Sub(p, step), decay), p);
  }

  Vector beta1, one_minus_beta1, beta2, one_minus_beta2, beta3, one_minus_beta3;
  Vector inverse_correction1, inverse_root_correction2, alpha, eps, learning_rate, decay;
};

AdemamixNumbers numbers_of(const KernelArgs& args) {
  return ademamix_numbers(ademamix_constants(args.attributes), *args.inputs[update_input::kLearningRate].as<float>(),
                          *args.inputs[update_input::kStep].as<int32_t>());
}

void ademamix(const KernelArgs& args) { run_update<3>(args, AdemamixFormula<false>(numbers_of(args))); }

void ademamix_8bit(const KernelArgs& args) {
  run_block_update<3>(args, AdemamixFormula<true>(numbers_of(args)), {kBnbSigned, kBnbSigned, kBnbUnsigned});
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(ademamix);
HWY_EXPORT(ademamix_8bit);
void ademamix_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(ademamix)(args); }
void ademamix_8bit_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(ademamix_8bit)(args); }
}  // namespace spillway::ops
#endif
