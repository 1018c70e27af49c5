// The kernels are bound by memory: of a matrix 26 bytes per parameter with f32 gradients and a bf16 working copy (read
// p, four times g; write p and the copy), and next to nothing for states. Not yet measured.
#include "ops/optimizers/adafactor/numbers.h"
#include "ops/optimizers/whole_matrix.cuh"

namespace spillway::ops {
namespace {

// The numbers at the start of the workspace.
struct MatrixNumbers {
  AdafactorNumbers step;
  float mean, rate;
};
static_assert(sizeof(MatrixNumbers) <= MatrixScratch::kNumbersBytes);

template <bool kFactored, typename T>
void run_adafactor(const KernelArgs& args) {
  const UpdateViews<kFactored ? 2 : 1> views(args);
  const MatrixSize size = MatrixSize::of(args.outputs[0].shape);
  const MatrixScratch scratch(args.workspace, size);
  const AdafactorConstants constants = adafactor_constants(args.attributes);
  launch_step_numbers<adafactor_numbers>(args, constants);
  auto* const n = reinterpret_cast<MatrixNumbers*>(args.workspace);
  const auto direction =
      update_direction<kFactored>(size, Gradients<T>(args, size.columns), &n->step.eps, &n->step.squares,
                                  mean_squares(views, 0), scratch, &n->mean, args.stream);
  const StoreClippedRate store_rate{args.inputs[update_input::kLearningRate].as<float>(), size.rows * size.columns,
                                    constants.clip_threshold, &n->rate};
  sum_matrix(size, Squared<Direction<T, kFactored>>{direction}, scratch, store_rate, args.stream);
  move_weight(size, views, &n->step.decay, &n->rate, direction, args.stream);
}

}  // namespace

void adafactor_cuda(const KernelArgs& args) {
  with_real(args.inputs[update_input::kGradient].dtype, [&]<typename T>(T*) {
    is_factored(args.outputs[0].shape) ? run_adafactor<true, T>(args) : run_adafactor<false, T>(args);
  });
}

}  // namespace spillway::ops
