// The kernels are bound by memory: 38 bytes per parameter with f32 gradients and a bf16 working copy (read g, p and
// twice m, v; write p, m, v and the copy).
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/stable_adamw/stable_adamw_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/stable_adamw/numbers.h"
#include "ops/optimizers/whole_matrix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

template <typename T>
void run_stable_adamw(const KernelArgs& args) {
  const UpdateViews<2> views(args);
  const MatrixSize size = MatrixSize::of(args.outputs[0].shape);
  const MatrixScratch scratch(args.workspace, size);
  const StableAdamwConstants constants = stable_adamw_constants(args.attributes);
  const float learning_rate = *args.inputs[update_input::kLearningRate].as<float>();
  const StableAdamwNumbers n =
      stable_adamw_numbers(constants, learning_rate, *args.inputs[update_input::kStep].as<int32_t>());
  const Gradients<T> gradients(args, size.columns);
  const auto next_moments = [&](int64_t row, int64_t j, int64_t count) HWY_ATTR {
    const int64_t at = row * size.columns + j;
    const Vector g = gradients(row, j, count), last = load_lanes(views.state_in[0] + at, count);
    const Vector m = hn::Add(last, hn::Mul(hn::Sub(g, last), constant(n.one_minus_beta1)));
    const Vector square = hn::Mul(g, g), v = next_mean(n.squares, load_lanes(views.state_in[1] + at, count), square);
    store_lanes(m, views.state[0] + at, count);
    store_lanes(v, views.state[1] + at, count);
    return hn::Div(square, hn::Max(v, constant(n.least_square)));
  };
  const double ratios = sum_matrix(size, next_moments, scratch, *args.threads);
  const StableAdamwRate of_weight =
      stable_adamw_rate(learning_rate, ratios, size.rows * size.columns, constants.weight_decay);
  const auto step = [&](int64_t row, int64_t j, int64_t count) HWY_ATTR {
    const int64_t at = row * size.columns + j;
    const Vector m = load_lanes(views.state[0] + at, count), v = load_lanes(views.state[1] + at, count);
    return hn::Div(m, hn::Add(hn::Sqrt(v), constant(n.eps)));
  };
  move_weight(size, views, of_weight.decay, of_weight.rate, step, *args.threads);
}

void stable_adamw(const KernelArgs& args) {
  with_real(args.inputs[update_input::kGradient].dtype, [&]<typename T>(T*) { run_stable_adamw<T>(args); });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(stable_adamw);
void stable_adamw_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(stable_adamw)(args); }
}  // namespace spillway::ops
#endif
