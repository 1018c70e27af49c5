// The rows are shared by a whole clip or sequence: there are few, and launches take longer than the work.
#include "backend/cuda/kernel.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

// Uses a block for each row of x.
template <typename T>
__global__ void repeat_kernel(const T* x, T* out, int64_t width, int64_t wide) {
  const T* const from = x + blockIdx.x * width;
  T* const to = out + blockIdx.x * wide;
  for (int64_t i = threadIdx.x; i < wide; i += blockDim.x) to[i] = from[i % width];
}

template <typename T>
__global__ void sum_kernel(const T* dy, T* out, int64_t width, int64_t wide) {
  const T* const from = dy + blockIdx.x * wide;
  for (int64_t column = threadIdx.x; column < width; column += blockDim.x) {
    float sum = 0;
    for (int64_t at = column; at < wide; at += width) sum += to_float(from[at]);
    out[blockIdx.x * width + column] = cuda::from_float<T>(sum);
  }
}

}  // namespace

void repeat_columns_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(repeat_kernel<T>, {x.shape[0], cuda::threads_for(out.shape[1])}, args.stream,
                 static_cast<const T*>(x.as<T>()), out.as<T>(), x.shape[1], out.shape[1]);
  });
}

void sum_repeated_cuda(const KernelArgs& args) {
  const TensorView &dy = args.inputs[0], &out = args.outputs[0];
  with_real(dy.dtype, [&]<typename T>(T*) {
    cuda::launch(sum_kernel<T>, {dy.shape[0], cuda::threads_for(out.shape[1])}, args.stream,
                 static_cast<const T*>(dy.as<T>()), out.as<T>(), out.shape[1], dy.shape[1]);
  });
}

}  // namespace spillway::ops
