// The kernels are bound by memory. Forward: gate and up are read, their product is written (6 bytes per output in
// bf16). Backward: gate, up and dy are read, two gradients are written (10 bytes). Not yet measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/clamped_swiglu/formula-inl.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// A vector of gates and ups makes half a vector.
template <typename T>
struct ClampedSwigluForward {
  static constexpr int kWidth = cuda::kVector<T>;
  const T* x;
  T* out;
  ClampedSwiglu formula;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const cuda::Floats<kWidth> pairs = cuda::load(x, span);
#pragma unroll
    for (int i = 0; i < kWidth; i += 2)
      if (i < span.count) out[(span.begin + i) / 2] = cuda::from_float<T>(formula.value(pairs[i], pairs[i + 1]));
  }
};

template <typename T>
struct ClampedSwigluBackward {
  static constexpr int kWidth = cuda::kVector<T>;
  const T *x, *dy;
  T* dx;
  ClampedSwiglu formula;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const cuda::Floats<kWidth> pairs = cuda::load(x, span);
    cuda::Floats<kWidth> gradients;
#pragma unroll
    for (int i = 0; i < kWidth; i += 2) {
      const float d = i < span.count ? to_float(dy[(span.begin + i) / 2]) : 0.0f;
      formula.gradients(pairs[i], pairs[i + 1], d, &gradients[i], &gradients[i + 1]);
    }
    cuda::store(gradients, dx, span);
  }
};

}  // namespace

void clamped_swiglu_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::map(x.elems(),
              ClampedSwigluForward<T>{x.as<T>(), args.outputs[0].as<T>(), clamped_swiglu_of(args.attributes)},
              args.stream);
  });
}

void clamped_swiglu_grad_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::map(x.elems(),
              ClampedSwigluBackward<T>{x.as<T>(), args.inputs[1].as<T>(), args.outputs[0].as<T>(),
                                       clamped_swiglu_of(args.attributes)},
              args.stream);
  });
}

}  // namespace spillway::ops
