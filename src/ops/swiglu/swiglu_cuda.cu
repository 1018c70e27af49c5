// Bound by memory. Forward: gate and up are read, their product is written (6 bytes per element in bf16). Backward:
// gate, up and dy are read, two gradients are written (10 bytes). The exponential is hidden behind that. Not yet
// measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// 1 / (1 + exp(-x)), without overflow on either side.
__device__ float sigmoid(float x) {
  const float small = expf(-fabsf(x));
  return (x < 0 ? small : 1.0f) / (1.0f + small);
}

template <typename T>
struct Swiglu {
  static constexpr int kWidth = cuda::kVector<T>;
  const T *gate, *up;
  T* out;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const cuda::Floats<kWidth> g = cuda::load(gate, span), u = cuda::load(up, span);
    cuda::Floats<kWidth> product;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) product[i] = g[i] * sigmoid(g[i]) * u[i];
    cuda::store(product, out, span);
  }
};

// With s = sigmoid(gate): dgate = dy * up * s * (1 + gate * (1 - s)), dup = dy * gate * s.
template <typename T>
struct SwigluGrad {
  static constexpr int kWidth = cuda::kVector<T>;
  const T *gate, *up, *dy;
  T *dgate, *dup;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const cuda::Floats<kWidth> g = cuda::load(gate, span), u = cuda::load(up, span), d = cuda::load(dy, span);
    cuda::Floats<kWidth> of_gate, of_up;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float s = sigmoid(g[i]);
      of_gate[i] = d[i] * u[i] * (s * (1 + g[i] * (1 - s)));
      of_up[i] = d[i] * (g[i] * s);
    }
    cuda::store(of_gate, dgate, span);
    cuda::store(of_up, dup, span);
  }
};

}  // namespace

void swiglu_cuda(const KernelArgs& args) {
  const TensorView &gate = args.inputs[0], &up = args.inputs[1], &out = args.outputs[0];
  with_real(gate.dtype, [&]<typename T>(T*) {
    cuda::map(gate.elems(), Swiglu<T>{gate.as<T>(), up.as<T>(), out.as<T>()}, args.stream);
  });
}

void swiglu_grad_cuda(const KernelArgs& args) {
  const TensorView &gate = args.inputs[0], &up = args.inputs[1], &dy = args.inputs[2];
  with_real(gate.dtype, [&]<typename T>(T*) {
    cuda::map(gate.elems(),
              SwigluGrad<T>{gate.as<T>(), up.as<T>(), dy.as<T>(), args.outputs[0].as<T>(), args.outputs[1].as<T>()},
              args.stream);
  });
}

}  // namespace spillway::ops
