// The kernels are bound by memory. Forward: gate and up are read, their product is written (6 bytes per element in
// bf16). Backward: gate, up and dy are read, two gradients are written (10 bytes). The exponential is hidden behind
// that. Not yet measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/activation/functions-inl.h"
#include "ops/real.h"
#include "ops/swiglu/operands.h"

namespace spillway::ops {
namespace {

using namespace swiglu_op;

template <typename F, typename T>
struct Gated {
  static constexpr int kWidth = cuda::kVector<T>;
  const T *gate, *up;
  T* out;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const cuda::Floats<kWidth> g = cuda::load(gate, span), u = cuda::load(up, span);
    cuda::Floats<kWidth> product;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) product[i] = F::value(g[i]) * u[i];
    cuda::store(product, out, span);
  }
};

// Computes dgate = dy * up * slope(gate), dup = dy * value(gate).
template <typename F, typename T>
struct GatedGrad {
  static constexpr int kWidth = cuda::kVector<T>;
  const T *gate, *up, *dy;
  T *dgate, *dup;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const cuda::Floats<kWidth> g = cuda::load(gate, span), u = cuda::load(up, span), d = cuda::load(dy, span);
    cuda::Floats<kWidth> of_gate, of_up;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      of_gate[i] = d[i] * u[i] * F::slope(g[i]);
      of_up[i] = d[i] * F::value(g[i]);
    }
    cuda::store(of_gate, dgate, span);
    cuda::store(of_up, dup, span);
  }
};

template <typename F>
void gated(const KernelArgs& args) {
  const TensorView &gate = args.inputs[kGate], &up = args.inputs[kUp], &out = args.outputs[0];
  with_real(gate.dtype, [&]<typename T>(T*) {
    cuda::map(gate.elems(), Gated<F, T>{gate.as<T>(), up.as<T>(), out.as<T>()}, args.stream);
  });
}

template <typename F>
void gated_grad(const KernelArgs& args) {
  const TensorView &gate = args.inputs[kGate], &up = args.inputs[kUp], &dy = args.inputs[kDy];
  with_real(gate.dtype, [&]<typename T>(T*) {
    cuda::map(gate.elems(),
              GatedGrad<F, T>{gate.as<T>(), up.as<T>(), dy.as<T>(), args.outputs[0].as<T>(), args.outputs[1].as<T>()},
              args.stream);
  });
}

}  // namespace

void swiglu_cuda(const KernelArgs& args) { gated<Silu>(args); }
void swiglu_grad_cuda(const KernelArgs& args) { gated_grad<Silu>(args); }
void geglu_cuda(const KernelArgs& args) { gated<GeluTanh>(args); }
void geglu_grad_cuda(const KernelArgs& args) { gated_grad<GeluTanh>(args); }
void glu_cuda(const KernelArgs& args) { gated<Sigmoid>(args); }
void glu_grad_cuda(const KernelArgs& args) { gated_grad<Sigmoid>(args); }
void bilinear_cuda(const KernelArgs& args) { gated<Identity>(args); }
void bilinear_grad_cuda(const KernelArgs& args) { gated_grad<Identity>(args); }

}  // namespace spillway::ops
