// Bound by memory. Forward: x is read and the result written (4 bytes per element in bf16). Backward: x and dy are
// read, dx is written (6 bytes). Not yet measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/activation/kinds.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// 1 / (1 + exp(-x)), without overflow on either side.
__device__ float logistic(float x) {
  const float small = expf(-fabsf(x));
  return (x < 0 ? small : 1.0f) / (1.0f + small);
}

// Each has the activation and its slope; the formulas are those of activation_cpu.cc.
struct Silu {
  __device__ static float value(float x) { return x * logistic(x); }
  __device__ static float slope(float x) {
    const float s = logistic(x);
    return s * (1 + x * (1 - s));
  }
};

struct Gelu {
  __device__ static float value(float x) { return x * (0.5f * erfcf(-x * kHalfRoot)); }
  __device__ static float slope(float x) {
    return 0.5f * erfcf(-x * kHalfRoot) + x * kNormalDensity * expf(-0.5f * x * x);
  }
};

struct GeluTanh {
  __device__ static float weight(float x) { return logistic(2 * kGeluRoot * x * (1 + kGeluCube * x * x)); }
  __device__ static float value(float x) { return x * weight(x); }
  __device__ static float slope(float x) {
    const float s = weight(x);
    if (fabsf(x) >= 16) return s;
    return s + x * s * (1 - s) * (2 * kGeluRoot * (1 + 3 * kGeluCube * x * x));
  }
};

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

// Calls f(a null F*, a null T*).
template <typename Function>
void with_kind(const KernelArgs& args, const Function& f) {
  with_real(args.inputs[0].dtype, [&]<typename T>(T* type) {
    switch (activation_of(args)) {
      case ActivationKind::kSilu:
        return f(static_cast<Silu*>(nullptr), type);
      case ActivationKind::kGelu:
        return f(static_cast<Gelu*>(nullptr), type);
      case ActivationKind::kGeluTanh:
        return f(static_cast<GeluTanh*>(nullptr), type);
    }
  });
}

}  // namespace

void activation_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  with_kind(args, [&]<typename F, typename T>(F*, T*) {
    cuda::map(x.elems(), Activation<F, T>{x.as<T>(), out.as<T>()}, args.stream);
  });
}

void activation_grad_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &dy = args.inputs[1], &dx = args.outputs[0];
  with_kind(args, [&]<typename F, typename T>(F*, T*) {
    cuda::map(x.elems(), ActivationGrad<F, T>{x.as<T>(), dy.as<T>(), dx.as<T>()}, args.stream);
  });
}

}  // namespace spillway::ops
