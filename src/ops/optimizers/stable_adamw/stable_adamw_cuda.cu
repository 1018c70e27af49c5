// The kernels are bound by memory: 38 bytes per parameter with f32 gradients and a bf16 working copy (read g, p and
// twice m, v; write p, m, v and the copy). Not yet measured.
#include "ops/optimizers/stable_adamw/numbers.h"
#include "ops/optimizers/whole_matrix.cuh"

namespace spillway::ops {
namespace {

// The numbers at the start of the workspace.
struct WeightNumbers {
  StableAdamwNumbers step;
  StableAdamwRate of_weight;
};
static_assert(sizeof(WeightNumbers) <= MatrixScratch::kNumbersBytes);

template <typename T>
struct NextMoments {
  Gradients<T> gradients;
  UpdateViews<2> views;
  const StableAdamwNumbers* n;
  __device__ float operator()(int64_t row, int64_t column) const {
    const int64_t at = row * gradients.columns + column;
    const float g = gradients(row, column), last = views.state_in[0][at], square = g * g;
    const float v = next_mean(n->squares, views.state_in[1][at], square);
    views.state[0][at] = last + (g - last) * n->one_minus_beta1;
    views.state[1][at] = v;
    return square / (v > n->least_square ? v : n->least_square);
  }
};

struct StoreRate {
  const float* learning_rate;
  int64_t elems;
  double weight_decay;
  StableAdamwRate* to;
  __device__ void operator()(double ratios) const {
    *to = stable_adamw_rate(*learning_rate, ratios, elems, weight_decay);
  }
};

struct Step {
  UpdateViews<2> views;
  int64_t columns;
  const StableAdamwNumbers* n;
  __device__ float operator()(int64_t row, int64_t column) const {
    const int64_t at = row * columns + column;
    return views.state[0][at] / (sqrtf(views.state[1][at]) + n->eps);
  }
};

template <typename T>
void run_stable_adamw(const KernelArgs& args) {
  const UpdateViews<2> views(args);
  const MatrixSize size = MatrixSize::of(args.outputs[0].shape);
  const MatrixScratch scratch(args.workspace, size);
  const StableAdamwConstants constants = stable_adamw_constants(args.attributes);
  launch_step_numbers<stable_adamw_numbers>(args, constants);
  auto* const n = reinterpret_cast<WeightNumbers*>(args.workspace);
  sum_matrix(size, NextMoments<T>{Gradients<T>(args, size.columns), views, &n->step}, scratch,
             StoreRate{args.inputs[update_input::kLearningRate].as<float>(), size.rows * size.columns,
                       constants.weight_decay, &n->of_weight},
             args.stream);
  move_weight(size, views, &n->of_weight.decay, &n->of_weight.rate, Step{views, size.columns, &n->step}, args.stream);
}

}  // namespace

void stable_adamw_cuda(const KernelArgs& args) {
  with_real(args.inputs[update_input::kGradient].dtype, [&]<typename T>(T*) { run_stable_adamw<T>(args); });
}

}  // namespace spillway::ops
