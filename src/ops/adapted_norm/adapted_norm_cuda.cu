// Uses a thread for each row. The kernel is bound by memory at small ranks: the overlap and B are read once (6 bytes
// for each element of B in bf16), the overlap in whole lines. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "ops/adapted_norm/row_norm.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 128;

template <typename T>
__global__ void __launch_bounds__(kThreads) adapted_norm_kernel(RowNorm<T> norm) {
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row < norm.rows) norm.compute(row);
}

}  // namespace

void adapted_norm_cuda(const KernelArgs& args) {
  with_real(args.inputs[adapted_norm_op::kB].dtype, [&]<typename T>(T*) {
    const RowNorm<T> norm(args);
    cuda::launch(adapted_norm_kernel<T>, {div_ceil(norm.rows, int64_t{kThreads}), kThreads}, args.stream, norm);
  });
}

}  // namespace spillway::ops
