// The kernel is bound by the time of a launch: there is a number for each row of the data. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "base/math.h"
#include "ops/collectives/sum_over_ranks/operands.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 128;

__global__ void sum_of_ranks_kernel(NumbersOfRanks all, float* out, int64_t rows) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row < rows) out[row] = all.sum(row);
}

}  // namespace

void sum_of_ranks_cuda(const KernelArgs& args) {
  const TensorView &numbers = args.inputs[sum_of_ranks_op::kNumbers], &out = args.outputs[0];
  const int64_t ranks = args.attributes.integer("ranks"), rows = out.elems();
  cuda::launch(sum_of_ranks_kernel, {div_ceil(rows, int64_t{kThreads}), kThreads}, args.stream,
               NumbersOfRanks{numbers.as<float>(), numbers.elems() / ranks, ranks}, out.as<float>(), rows);
}

}  // namespace spillway::ops
