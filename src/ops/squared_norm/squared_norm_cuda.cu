// Bound by memory: x is read once; a partial sum for every kNormBlockElems elements is next to nothing. Not yet
// measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/real.h"
#include "ops/squared_norm/blocks.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 256;
constexpr int kTotalThreads = 1024;

template <typename T>
__global__ void __launch_bounds__(kThreads) partial_squares_kernel(const T* x, int64_t elems, float* partial) {
  constexpr int kWidth = cuda::kVector<T>;
  constexpr int64_t kElems = kNormBlockElems;
  const int64_t first = blockIdx.x * kElems;
  float sum = 0;
  cuda::for_each_vector<kWidth>(std::min(kElems, elems - first), threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> v = cuda::load(x + first, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += v[i] * v[i];
  });
  sum = cuda::block_sum<kThreads>(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kTotalThreads) total_kernel(const float* partial, int64_t blocks, float* out) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < blocks; i += kTotalThreads) sum += partial[i];
  sum = cuda::block_sum<kTotalThreads>(sum);
  if (threadIdx.x == 0) *out = static_cast<float>(sum);
}

}  // namespace

void squared_norm_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t blocks = div_ceil(x.elems(), kNormBlockElems);
  auto* partial = reinterpret_cast<float*>(args.workspace);
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(partial_squares_kernel<T>, {blocks, kThreads}, args.stream, x.as<T>(), x.elems(), partial);
  });
  cuda::launch(total_kernel, {1, kTotalThreads}, args.stream, partial, blocks, args.outputs[0].as<float>());
}

}  // namespace spillway::ops
