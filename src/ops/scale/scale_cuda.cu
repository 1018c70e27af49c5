// The kernels are bound by memory: x is read and the product written (4 bytes per element in bf16, 8 in f32). Not yet
// measured.
#include "backend/cuda/map.cuh"
#include "backend/kernel.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

template <typename T>
struct Scale {
  static constexpr int kWidth = cuda::kVector<T>;
  const T* x;
  T* out;
  float factor;
  const float* more;  // a second factor, or null

  __device__ void operator()(cuda::Span<kWidth> span) const {
    cuda::Floats<kWidth> v = cuda::load(x, span);
    const float all = more == nullptr ? factor : factor * *more;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] *= all;
    cuda::store(v, out, span);
  }
};

}  // namespace

void scale_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  const auto factor = static_cast<float>(args.attributes.real("factor"));
  const float* const more = args.inputs.size() > 1 ? args.inputs[1].as<float>() : nullptr;
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::map(x.elems(), Scale<T>{x.as<T>(), out.as<T>(), factor, more}, args.stream);
  });
}

}  // namespace spillway::ops
