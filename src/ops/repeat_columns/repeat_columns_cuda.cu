// The rows are shared by a whole clip or sequence: there are few, and launches take longer than the work.
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"

namespace spillway::ops {
namespace {

// Uses a block for each row of x.
__global__ void repeat_kernel(const float* x, float* out, int64_t width, int64_t wide) {
  const float* const from = x + blockIdx.x * width;
  float* const to = out + blockIdx.x * wide;
  for (int64_t i = threadIdx.x; i < wide; i += blockDim.x) to[i] = from[i % width];
}

__global__ void sum_kernel(const float* dy, float* out, int64_t width, int64_t wide) {
  const float* const from = dy + blockIdx.x * wide;
  for (int64_t column = threadIdx.x; column < width; column += blockDim.x) {
    float sum = 0;
    for (int64_t at = column; at < wide; at += width) sum += from[at];
    out[blockIdx.x * width + column] = sum;
  }
}

}  // namespace

void repeat_columns_cuda(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  cuda::launch(repeat_kernel, {x.shape[0], cuda::threads_for(out.shape[1])}, args.stream, x.as<float>(),
               out.as<float>(), x.shape[1], out.shape[1]);
}

void sum_repeated_cuda(const KernelArgs& args) {
  const TensorView &dy = args.inputs[0], &out = args.outputs[0];
  cuda::launch(sum_kernel, {dy.shape[0], cuda::threads_for(out.shape[1])}, args.stream, dy.as<float>(), out.as<float>(),
               out.shape[1], dy.shape[1]);
}

}  // namespace spillway::ops
