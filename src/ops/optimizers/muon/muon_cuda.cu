// The kernels are bound by the products of the update, 5 times 6 m m n flops of a matrix [m, n] that is no taller than
// wide; besides, these kernels move 30 bytes per parameter with f32 gradients and a bf16 working copy. Not yet
// measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/optimizers/muon/numbers.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

template <typename T>
struct NextMomentum {
  static constexpr int kWidth = cuda::kVector<float, T>;
  const T* gradient;
  const float *clip, *last;
  float* next;
  bf16* direction;
  MuonMeans n;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const float factor = clip != nullptr ? *clip : 1.0F;
    const cuda::Floats<kWidth> gradients = cuda::load(gradient, span);
    cuda::Floats<kWidth> m = cuda::load(last, span), u = {};
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      const float g = gradients[i] * factor;
      m[i] = m[i] + (g - m[i]) * n.one_minus_momentum;
      u[i] = m[i] + (g - m[i]) * n.of_gradient;
    }
    cuda::store(m, next, span);
    cuda::store(u, direction, span);
  }
};

struct Normalise {
  static constexpr int kWidth = cuda::kVector<bf16>;
  const bf16* x;
  const float* squared_norm;
  bf16* y;

  __device__ void operator()(cuda::Span<kWidth> span) const {
    const float norm = muon_norm(*squared_norm);
    cuda::Floats<kWidth> v = cuda::load(x, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] = v[i] / norm;
    cuda::store(v, y, span);
  }
};

}  // namespace

void muon_momentum_cuda(const KernelArgs& args) {
  using namespace muon_momentum_op;
  const TensorView& gradients = args.inputs[kGradient];
  with_real(gradients.dtype, [&]<typename T>(T*) {
    const NextMomentum<T> body{.gradient = gradients.as<T>(),
                               .clip = args.inputs[kClip].as<float>(),
                               .last = args.inputs[kBuffer].as<float>(),
                               .next = args.outputs[0].as<float>(),
                               .direction = args.outputs[1].as<bf16>(),
                               .n = muon_means(args.attributes)};
    cuda::map(gradients.elems(), body, args.stream);
  });
}

void muon_normalise_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  cuda::map(x.elems(), Normalise{x.as<bf16>(), args.inputs[1].as<float>(), args.outputs[0].as<bf16>()}, args.stream);
}

}  // namespace spillway::ops
