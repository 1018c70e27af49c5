// The kernels are bound by the time of a launch: x is a few numbers. Not yet measured.
#include <algorithm>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/kernel.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) row_sum_kernel(const float* x, int64_t rows, double divisor, float* out) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kThreads) sum += double{x[i]};
  sum = cuda::block_sum<kThreads>(sum);
  if (threadIdx.x == 0) *out = static_cast<float>(sum / divisor);
}

__global__ void __launch_bounds__(kThreads)
    row_sum_grad_kernel(const float* dy, int64_t rows, float divisor, float* dx) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < rows) dx[i] = *dy / divisor;
}

}  // namespace

void row_sum_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const bool is_mean = args.attributes.integer("mean") != 0;
  const double divisor = is_mean ? static_cast<double>(std::max<int64_t>(1, x.elems())) : 1;
  cuda::launch(row_sum_kernel, {1, kThreads}, args.stream, x.as<float>(), x.elems(), divisor,
               args.outputs[0].as<float>());
}

void row_sum_grad_cuda(const KernelArgs& args) {
  const TensorView& dx = args.outputs[0];
  const bool is_mean = args.attributes.integer("mean") != 0;
  cuda::launch(row_sum_grad_kernel, {div_ceil(dx.elems(), int64_t{kThreads}), kThreads}, args.stream,
               args.inputs[0].as<float>(), dx.elems(), is_mean ? static_cast<float>(dx.elems()) : 1.0f, dx.as<float>());
}

}  // namespace spillway::ops
