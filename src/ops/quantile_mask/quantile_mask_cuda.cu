// The kernels are bound by the comparisons of one block of threads, n^2 / 1024 each. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/quantile_mask/quantile.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 256;

// Uses one block, which finds the two numbers around the quantile by counting those that come before each.
__global__ void __launch_bounds__(kThreads)
    quantile_mask_kernel(const float* x, const float* mask, int64_t n, float q, float* out) {
  __shared__ float around[2];
  int64_t count = 0;
  for (int64_t j = 0; j < n; ++j) count += mask[j] > 0 ? 1 : 0;
  if (count > 0) {
    const QuantilePlace place = quantile_place(q, count);
    for (int64_t i = threadIdx.x; i < n; i += kThreads) {
      if (!(mask[i] > 0)) continue;
      int64_t before = 0;
      for (int64_t j = 0; j < n; ++j) {
        const bool is_before = comes_before(x[j], x[i]) || (!comes_before(x[i], x[j]) && j < i);
        before += mask[j] > 0 && is_before ? 1 : 0;
      }
      if (before == place.low) around[0] = x[i];
      if (before == place.high) around[1] = x[i];
    }
    __syncthreads();
    const float threshold = place.between(around[0], around[1]);
    for (int64_t i = threadIdx.x; i < n; i += kThreads) out[i] = mask[i] > 0 && !(x[i] < threshold) ? 1.0f : 0.0f;
  } else {
    for (int64_t i = threadIdx.x; i < n; i += kThreads) out[i] = 0;
  }
}

}  // namespace

void quantile_mask_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  cuda::launch(quantile_mask_kernel, {1, kThreads}, args.stream, x.as<float>(), args.inputs[1].as<float>(), x.elems(),
               static_cast<float>(args.attributes.real("q")), args.outputs[0].as<float>());
}

}  // namespace spillway::ops
