// The kernels are bound by memory: of a matrix 22 bytes per parameter with f32 gradients and a bf16 working copy (read
// p, three times g; write p and the copy), and next to nothing for states.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizers/adafactor/adafactor_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/optimizers/adafactor/numbers.h"
#include "ops/optimizers/whole_matrix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

template <bool kFactored, typename T>
void run_adafactor(const KernelArgs& args) {
  const UpdateViews<kFactored ? 2 : 1> views(args);
  const MatrixSize size = MatrixSize::of(args.outputs[0].shape);
  const MatrixScratch scratch(args.workspace, size);
  const float learning_rate = *args.inputs[update_input::kLearningRate].as<float>();
  const AdafactorConstants constants = adafactor_constants(args.attributes);
  const AdafactorNumbers n =
      adafactor_numbers(constants, learning_rate, *args.inputs[update_input::kStep].as<int32_t>());
  const auto direction = update_direction<kFactored>(size, Gradients<T>(args, size.columns), n.eps, n.squares,
                                                     mean_squares(views, 0), scratch, *args.threads);
  const double squares = sum_squares(size, direction, scratch, *args.threads);
  const float rate = clipped_rate(learning_rate, squares, size.rows * size.columns, constants.clip_threshold);
  move_weight(size, views, n.decay, rate, direction, *args.threads);
}

void adafactor(const KernelArgs& args) {
  with_real(args.inputs[update_input::kGradient].dtype, [&]<typename T>(T*) {
    is_factored(args.outputs[0].shape) ? run_adafactor<true, T>(args) : run_adafactor<false, T>(args);
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(adafactor);
void adafactor_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(adafactor)(args); }
}  // namespace spillway::ops
#endif
