// The kernels are bound by memory: 22 bytes per parameter with f32 gradients and a bf16 working copy (read p, v, g;
// write p, v and the copy), and 8 more with momentum, and where centered.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/rmsprop/rmsprop_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/rmsprop/numbers.h"
#include "ops/optimizers/update-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

template <bool kMomentum, bool kCentered>
struct RmspropFormula {
  Vector learning_rate, alpha, one_minus_alpha, eps, momentum, weight_decay;

  HWY_INLINE Vector operator()(Vector p, Vector g, Vector* state) const {
    const Vector decayed = hn::Add(g, hn::Mul(p, weight_decay));
    Vector& square = state[0];
    square = hn::Add(hn::Mul(square, alpha), hn::Mul(hn::Mul(decayed, decayed), one_minus_alpha));
    Vector variance = square;
    if constexpr (kCentered) {
      Vector& mean = state[kMomentum ? 2 : 1];
      mean = hn::Add(mean, hn::Mul(hn::Sub(decayed, mean), one_minus_alpha));
      // Rounding may leave it below zero, for which torch gives NaN; a negative variance counts as zero.
      variance = hn::Max(hn::Sub(square, hn::Mul(mean, mean)), zero());
    }
    Vector step = hn::Div(decayed, hn::Add(hn::Sqrt(variance), eps));
    if constexpr (kMomentum) {
      state[1] = hn::Add(hn::Mul(state[1], momentum), step);
      step = state[1];
    }
    return hn::Sub(p, hn::Mul(learning_rate, step));
  }
};

template <bool kMomentum, bool kCentered>
void run_rmsprop(const KernelArgs& args) {
  const RmspropNumbers n = rmsprop_numbers(args.attributes);
  run_update<1 + kMomentum + kCentered>(
      args, RmspropFormula<kMomentum, kCentered>{
                .learning_rate = constant(*args.inputs[update_input::kLearningRate].as<float>()),
                .alpha = constant(n.alpha),
                .one_minus_alpha = constant(n.one_minus_alpha),
                .eps = constant(n.eps),
                .momentum = constant(n.momentum),
                .weight_decay = constant(n.weight_decay)});
}

void rmsprop(const KernelArgs& args) {
  const bool has_momentum = args.attributes.real("momentum") != 0;
  if (args.attributes.real("centered") != 0) {
    has_momentum ? run_rmsprop<true, true>(args) : run_rmsprop<false, true>(args);
  } else {
    has_momentum ? run_rmsprop<true, false>(args) : run_rmsprop<false, false>(args);
  }
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(rmsprop);
void rmsprop_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(rmsprop)(args); }
}  // namespace spillway::ops
#endif
