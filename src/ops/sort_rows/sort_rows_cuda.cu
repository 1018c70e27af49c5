// The kernels are bound by the time of a launch: x is a few numbers. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/sort_rows/rank.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) sort_rows_kernel(const float* x, int64_t rows, float* out) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < rows) out[rank_of(x, rows, i)] = x[i];
}

__global__ void __launch_bounds__(kThreads)
    sort_rows_grad_kernel(const float* x, const float* dy, int64_t rows, float* dx) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < rows) dx[i] = dy[rank_of(x, rows, i)];
}

cuda::Grid grid_for(int64_t rows) { return {div_ceil(rows, int64_t{kThreads}), kThreads}; }

}  // namespace

void sort_rows_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  cuda::launch(sort_rows_kernel, grid_for(x.elems()), args.stream, x.as<float>(), x.elems(),
               args.outputs[0].as<float>());
}

void sort_rows_grad_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  cuda::launch(sort_rows_grad_kernel, grid_for(x.elems()), args.stream, x.as<float>(), args.inputs[1].as<float>(),
               x.elems(), args.outputs[0].as<float>());
}

}  // namespace spillway::ops
