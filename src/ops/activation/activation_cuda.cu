// The kernels are bound by memory. Forward: x is read and the result written (4 bytes per element in bf16). Backward: x
// and dy are read, dx is written (6 bytes). Not yet measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/activation/functions-inl.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

template <typename F, typename T>
struct Activation {
  static constexpr int kWidth = cuda::kVector<T>;
  const T* x;
  T* out;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    cuda::Floats<kWidth> v = cuda::load(x, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = F::value(v[i]);
    cuda::store(v, out, span);
  }
};

template <typename F, typename T>
struct ActivationGrad {
  static constexpr int kWidth = cuda::kVector<T>;
  const T *x, *dy;
  T* dx;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const cuda::Floats<kWidth> v = cuda::load(x, span);
    cuda::Floats<kWidth> d = cuda::load(dy, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) d[i] *= F::slope(v[i]);
    cuda::store(d, dx, span);
  }
};

}  // namespace

void activation_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  with_activation(args, [&]<typename F>(F) {
    with_real(x.dtype, [&]<typename T>(T*) {
      cuda::map(x.elems(), Activation<F, T>{x.as<T>(), out.as<T>()}, args.stream);
    });
  });
}

void activation_grad_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &dy = args.inputs[1], &dx = args.outputs[0];
  with_activation(args, [&]<typename F>(F) {
    with_real(x.dtype, [&]<typename T>(T*) {
      cuda::map(x.elems(), ActivationGrad<F, T>{x.as<T>(), dy.as<T>(), dx.as<T>()}, args.stream);
    });
  });
}

}  // namespace spillway::ops
