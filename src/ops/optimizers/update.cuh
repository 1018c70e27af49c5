// The frame of an update on a GPU. Files that use it are compiled without fusing, so that the bits are the CPU's.
#pragma once

#include "backend/cuda/map.cuh"
#include "ops/optimizers/update.h"
#include "ops/real.h"
#include "ops/row_slice.cuh"

namespace spillway::ops {

// Formula has numbers(), read once by every thread, and update(numbers, p, g, state), which sets p and the states.
template <int kStates, typename Gradient, typename Formula>
struct UpdateBody {
  static constexpr int kWidth = cuda::kVector<float, Gradient>;
  UpdateViews<kStates> views;
  const Gradient* gradient;
  const float* clip;  // null: 1
  Formula formula;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    using cuda::load, cuda::store;
    const auto numbers = formula.numbers();
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
      Formula::update(numbers, p[i], gradients[i] * factor, lane);
#pragma unroll
      for (size_t s = 0; s < UpdateViews<kStates>::kSize; ++s) state[s][i] = lane[s];
    }
    store(p, views.p, span);
#pragma unroll
    for (int s = 0; s < kStates; ++s) store(state[s], views.state[s], span);
    if (views.copy != nullptr) store(p, views.copy, span);
  }
};

template <int kStates, typename Formula>
void run_update(const KernelArgs& args, const Formula& formula) {
  const UpdateViews<kStates> views(args);
  copy_other_rows(args.inputs[update_input::kWeight], args.outputs[0], views.slice, args.stream);
  const TensorView& gradients = args.inputs[update_input::kGradient];
  with_real(gradients.dtype, [&]<typename T>(T*) {
    const UpdateBody<kStates, T, Formula> body{views, gradients.as<T>() + views.slice.begin,
                                               args.inputs[update_input::kClip].as<float>(), formula};
    cuda::map(views.slice.end - views.slice.begin, body, args.stream);
  });
}

}  // namespace spillway::ops
