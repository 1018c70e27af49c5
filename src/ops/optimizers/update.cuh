// The frame of an update on a GPU. Files that use it are compiled without fusing, so that the bits are the CPU's.
#pragma once

#define SPILLWAY_MAKES_UPDATES_FOR_CUDA  // ops/optimizers/formula-inl.h

#include "backend/cuda/map.cuh"
#include "ops/optimizers/update.h"
#include "ops/real.h"
#include "ops/row_slice.cuh"

namespace spillway::ops {

// Runs on one thread, since most GPUs have next to no f64.
template <typename Formula>
__global__ void __launch_bounds__(cuda::kWarp)
    make_formula_kernel(typename Formula::Options options, StepViews step, Formula* formula) {
  if (threadIdx.x == 0) *formula = Formula(options, step.read());
}

// The formula of a kernel's step, which threads make or read: step and learning rate are there only when the program
// runs. One that is made once lies in the operation's workspace.
template <typename Formula>
struct FormulaOfStep {
  explicit FormulaOfStep(const KernelArgs& args) : options(args.attributes), step(args) {
    if constexpr (Formula::kMadeOnce) {
      auto* const formula = reinterpret_cast<Formula*>(args.workspace);
      cuda::launch(make_formula_kernel<Formula>, {1, cuda::kWarp}, args.stream, options, step, formula);
      made = formula;
    }
  }
  [[nodiscard]] __device__ Formula get() const {
    if constexpr (Formula::kMadeOnce) return *made;
    return Formula(options, step.read());
  }

  typename Formula::Options options;
  StepViews step;
  const Formula* made = nullptr;
};

template <typename Formula, typename Gradient>
struct UpdateBody {
  static constexpr int kStates = Formula::kStates;
  static constexpr int kWidth = cuda::kVector<float, Gradient>;
  UpdateViews<kStates> views;
  const Gradient* gradient;
  const float* clip;  // null: 1
  FormulaOfStep<Formula> step;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    using cuda::load, cuda::store;
    const Formula formula = step.get();
    const float factor = clip != nullptr ? *clip : 1.0f;
    cuda::Floats<kWidth> p = load(views.p_in, span), state[UpdateViews<kStates>::kSize] = {};
#pragma unroll
    for (int s = 0; s < kStates; ++s) state[s] = load(views.state_in[s], span);
    const cuda::Floats<kWidth> gradients = load(gradient, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      float lane[UpdateViews<kStates>::kSize];
#pragma unroll
      for (size_t s = 0; s < UpdateViews<kStates>::kSize; ++s) lane[s] = state[s][i];
      p[i] = formula(p[i], gradients[i] * factor, lane);
#pragma unroll
      for (size_t s = 0; s < UpdateViews<kStates>::kSize; ++s) state[s][i] = lane[s];
    }
    store(p, views.p, span);
#pragma unroll
    for (int s = 0; s < kStates; ++s) store(state[s], views.state[s], span);
    if (views.copy != nullptr) store(p, views.copy, span);
  }
};

template <typename Formula>
void run_update(const KernelArgs& args) {
  const UpdateViews<Formula::kStates> views(args);
  copy_other_rows(args.inputs[update_input::kWeight], args.outputs[0], views.slice, args.stream);
  const FormulaOfStep<Formula> step(args);
  const TensorView& gradients = args.inputs[update_input::kGradient];
  with_real(gradients.dtype, [&]<typename T>(T*) {
    const UpdateBody<Formula, T> body{views, gradients.as<T>() + views.slice.begin,
                                      args.inputs[update_input::kClip].as<float>(), step};
    cuda::map(views.slice.end - views.slice.begin, body, args.stream);
  });
}

}  // namespace spillway::ops
