// The kernels are bound by memory: of a matrix 34 bytes per parameter with f32 gradients and a bf16 working copy (read
// p, twice m, three times g; write p, m and the copy).
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/came/came_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/came/numbers.h"
#include "ops/optimizers/whole_matrix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

template <bool kFactored, typename T>
void run_came(const KernelArgs& args) {
  const UpdateViews<kFactored ? 5 : 2> views(args);
  const MatrixSize size = MatrixSize::of(args.outputs[0].shape);
  const MatrixScratch scratch(args.workspace, size);
  const CameConstants constants = came_constants(args.attributes);
  const float learning_rate = *args.inputs[update_input::kLearningRate].as<float>();
  const CameNumbers n = came_numbers(constants, learning_rate, 0);
  const auto direction = update_direction<kFactored>(size, Gradients<T>(args, size.columns), n.eps, n.squares,
                                                     mean_squares(views, 1), scratch, *args.threads);
  const double squares = sum_squares(size, direction, scratch, *args.threads);
  const float scale = clipped_rate(1, squares, size.rows * size.columns, constants.clip_threshold);
  // Computes the next mean of updates, once for each vector; leaves the update in `u`.
  const auto next_update = [&](int64_t row, int64_t j, int64_t count, Vector& u) HWY_ATTR {
    const int64_t at = row * size.columns + j;
    u = hn::Mul(direction(row, j, count), constant(scale));
    const Vector m = next_mean(n.update, load_lanes(views.state_in[0] + at, count), u);
    store_lanes(m, views.state[0] + at, count);
    return m;
  };
  const auto mean = [&](int64_t row, int64_t j, int64_t count)
                        HWY_ATTR { return load_lanes(views.state[0] + row * size.columns + j, count); };
  if constexpr (kFactored) {
    const auto residual = [&](int64_t row, int64_t j, int64_t count) HWY_ATTR {
      Vector u;
      const Vector m = next_update(row, j, count, u);
      const Vector apart = hn::Sub(u, m);
      return hn::Add(hn::Mul(apart, apart), constant(n.eps2));
    };
    update_factors(size, residual, n.residuals, mean_squares(views, 3), scratch, *args.threads);
    const auto confident = [&](int64_t row, int64_t j, int64_t count) HWY_ATTR {
      const Vector of_column = load_lanes(scratch.column_factors + j, count);
      return hn::Mul(mean(row, j, count), hn::Mul(constant(scratch.row_factors[row]), of_column));
    };
    move_weight(size, views, n.decay, learning_rate, confident, *args.threads);
  } else {
    for_each_row_vector(
        size,
        [&](int64_t row, int64_t j, int64_t count) HWY_ATTR {
          Vector u;
          next_update(row, j, count, u);
        },
        *args.threads);
    move_weight(size, views, n.decay, learning_rate, mean, *args.threads);
  }
}

void came(const KernelArgs& args) {
  with_real(args.inputs[update_input::kGradient].dtype, [&]<typename T>(T*) {
    is_factored(args.outputs[0].shape) ? run_came<true, T>(args) : run_came<false, T>(args);
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(came);
void came_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(came)(args); }
}  // namespace spillway::ops
#endif
