// The frame of an update on the CPU, for files that Highway compiles once for each instruction set (see ops/simd.h).
#if defined(SPILLWAY_OPS_UPDATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_UPDATE_INL_H
#undef SPILLWAY_OPS_UPDATE_INL_H
#else
#define SPILLWAY_OPS_UPDATE_INL_H
#endif

#include "ops/number-inl.h"
#include "ops/optimizers/update.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Loads a whole vector, or its first `count` lanes.
template <typename T>
HWY_INLINE Vector load_lanes(const T* from, int64_t count) {
  return count == lanes() ? load(from) : load_some(from, count);
}
template <typename T>
HWY_INLINE void store_lanes(Vector x, T* to, int64_t count) {
  if (count == lanes()) {
    store(x, to);
  } else {
    store_some(x, to, count);
  }
}

// Returns the formula of a kernel's step.
template <typename Formula>
Formula formula_of(const KernelArgs& args) {
  return Formula(typename Formula::Options(args.attributes), StepViews(args).read());
}

template <typename Formula, typename Gradient>
void update_range(const Formula& formula, Vector clip, const UpdateViews<Formula::kStates>& views,
                  const Gradient* gradient, int64_t begin, int64_t end) {
  constexpr size_t kStates = Formula::kStates;
  const Formula numbers = formula;  // its own, which no store can change
  for (int64_t i = begin; i < end; i += lanes()) {
    const int64_t count = std::min(lanes(), end - i);
    Number state[UpdateViews<Formula::kStates>::kSize];
    state[0] = 0;
    for (size_t s = 0; s < kStates; ++s) state[s] = load_lanes(views.state_in[s] + i, count);
    const Vector g = hn::Mul(load_lanes(gradient + i, count), clip);
    const Vector p = numbers(load_lanes(views.p_in + i, count), g, state).v;
    store_lanes(p, views.p + i, count);
    for (size_t s = 0; s < kStates; ++s) store_lanes(state[s].v, views.state[s] + i, count);
    if (views.copy) store_lanes(p, views.copy + i, count);
  }
}

// The kernel. It computes what the GPU's does, operation by operation. None is fused: not every instruction set could.
template <typename Formula>
void run_update(const KernelArgs& args) {
  const auto formula = formula_of<Formula>(args);
  const UpdateViews<Formula::kStates> views(args);
  copy_other_rows(args.inputs[update_input::kWeight], args.outputs[0], views.slice, *args.threads);
  const TensorView &clip_view = args.inputs[update_input::kClip], &gradients = args.inputs[update_input::kGradient];
  const Vector clip = constant(clip_view.data ? *clip_view.as<float>() : 1);
  with_real(gradients.dtype, [&]<typename T>(T*) {
    const T* gradient = gradients.as<T>() + views.slice.begin;
    args.threads->parallel_for(views.slice.end - views.slice.begin, kElementGrain,
                               [&](int64_t begin, int64_t end, int)
                                   HWY_ATTR { update_range(formula, clip, views, gradient, begin, end); });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
