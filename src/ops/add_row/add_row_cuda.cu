// The kernels are bound by memory: x is read and the sum is written (4 bytes per element in bf16). Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// Uses a block for each row.
template <typename X, typename R>
__global__ void add_row_kernel(const X* x, const R* row, X* out, int64_t width) {
  constexpr int kWidth = cuda::kVector<X, R>;
  const int64_t at = blockIdx.x * width;
  cuda::for_each_vector<kWidth>(width, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                                [&](cuda::Span<kWidth> span) {
                                  cuda::Floats<kWidth> sum = cuda::load(x + at, span);
                                  const cuda::Floats<kWidth> more = cuda::load(row, span);
#pragma unroll
                                  for (int i = 0; i < kWidth; ++i) sum[i] += more[i];
                                  cuda::store(sum, out + at, span);
                                });
}

}  // namespace

void add_row_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &row = args.inputs[1], &out = args.outputs[0];
  const int64_t width = x.shape[1];
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(row.dtype, [&]<typename R>(R*) {
      const int threads = cuda::threads_for(div_ceil(width, cuda::kVector<X, R>));
      cuda::launch(add_row_kernel<X, R>, {x.shape[0], threads}, args.stream, x.as<X>(), row.as<R>(), out.as<X>(),
                   width);
    });
  });
}

}  // namespace spillway::ops
