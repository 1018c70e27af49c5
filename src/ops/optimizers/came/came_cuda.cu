// The kernels are bound by memory: of a matrix 54 bytes per parameter with f32 gradients and a bf16 working copy (read
// p, four times m, six times g; write p, m and the copy). Not yet measured.
#include "ops/optimizers/came/numbers.h"
#include "ops/optimizers/whole_matrix.cuh"

namespace spillway::ops {
namespace {

// The numbers at the start of the workspace.
struct MatrixNumbers {
  CameNumbers step;
  float mean, scale;
};
static_assert(sizeof(MatrixNumbers) <= MatrixScratch::kNumbersBytes);

template <typename Direction>
struct NextUpdate {
  Direction direction;
  int64_t columns;
  const MatrixNumbers* n;
  const float* last;
  float* next;
  __device__ void operator()(int64_t i) const {
    next[i] = next_mean(n->step.update, last[i], direction(i / columns, i % columns) * n->scale);
  }
};

// The squared distance of an update from the mean.
template <typename Direction>
struct Residual {
  Direction direction;
  int64_t columns;
  const MatrixNumbers* n;
  const float* mean;
  __device__ float operator()(int64_t row, int64_t column) const {
    const float apart = direction(row, column) * n->scale - mean[row * columns + column];
    return apart * apart + n->step.eps2;
  }
};

template <bool kFactored>
struct Confident {
  MatrixScratch scratch;
  int64_t columns;
  const float* mean;
  __device__ float operator()(int64_t row, int64_t column) const {
    const float m = mean[row * columns + column];
    return kFactored ? m * (scratch.row_factors[row] * scratch.column_factors[column]) : m;
  }
};

template <bool kFactored, typename T>
void run_came(const KernelArgs& args) {
  const UpdateViews<kFactored ? 5 : 2> views(args);
  const MatrixSize size = MatrixSize::of(args.outputs[0].shape);
  const MatrixScratch scratch(args.workspace, size);
  const CameConstants constants = came_constants(args.attributes);
  const int64_t elems = size.rows * size.columns;
  launch_step_numbers<came_numbers>(args, constants);
  auto* const n = reinterpret_cast<MatrixNumbers*>(args.workspace);
  using Of = Direction<T, kFactored>;
  const Of direction =
      update_direction<kFactored>(size, Gradients<T>(args, size.columns), &n->step.eps, &n->step.squares,
                                  mean_squares(views, 1), scratch, &n->mean, args.stream);
  sum_matrix(size, Squared<Of>{direction}, scratch,
             StoreClippedRate{nullptr, elems, constants.clip_threshold, &n->scale}, args.stream);
  for_each(elems, NextUpdate<Of>{direction, size.columns, n, views.state_in[0], views.state[0]}, args.stream);
  if constexpr (kFactored) {
    update_factors(size, Residual<Of>{direction, size.columns, n, views.state[0]}, &n->step.residuals,
                   mean_squares(views, 3), scratch, &n->mean, args.stream);
  }
  move_weight(size, views, &n->step.decay, args.inputs[update_input::kLearningRate].as<float>(),
              Confident<kFactored>{scratch, size.columns, views.state[0]}, args.stream);
}

}  // namespace

void came_cuda(const KernelArgs& args) {
  with_real(args.inputs[update_input::kGradient].dtype, [&]<typename T>(T*) {
    is_factored(args.outputs[0].shape) ? run_came<true, T>(args) : run_came<false, T>(args);
  });
}

}  // namespace spillway::ops
