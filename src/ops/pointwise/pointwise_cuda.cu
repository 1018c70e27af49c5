// The kernels are bound by the time of a launch: the operands are a few numbers. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "ops/pointwise/functions.h"

namespace spillway::ops::pointwise {
namespace {

constexpr int kThreads = 256;

template <typename F>
__global__ void __launch_bounds__(kThreads) pointwise_kernel(Operands operands, F f) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < operands.elems) operands.apply(f, i);
}

}  // namespace

template <typename F>
void run_cuda(const KernelArgs& args) {
  const Operands operands(args);
  cuda::launch(pointwise_kernel<F>, {div_ceil(operands.elems, int64_t{kThreads}), kThreads}, args.stream, operands,
               F(args.attributes));
}

SPILLWAY_POINTWISE_KERNELS(run_cuda);

}  // namespace spillway::ops::pointwise
