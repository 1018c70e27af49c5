// The kernels are bound by the time of a launch: x is one number of each token. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "ops/sequence_sum/operands.h"

namespace spillway::ops {
namespace {

using namespace sequence_sum_op;

// Uses a block for each row.
constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) sequence_sum_kernel(const float* x, SequenceTokens tokens, float* out) {
  const TokenSpan span = tokens.of_row(blockIdx.x);
  double sum = 0;
  for (int64_t token = span.begin + threadIdx.x; token < span.end; token += kThreads)
    sum += tokens.weighted(x[token], token);
  sum = cuda::block_sum<kThreads>(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<float>(sum);
}

__global__ void __launch_bounds__(kThreads) sequence_spread_kernel(const float* dy, SequenceTokens tokens, float* dx) {
  const TokenSpan span = tokens.of_row(blockIdx.x);
  for (int64_t token = span.begin + threadIdx.x; token < span.end; token += kThreads)
    dx[token] = static_cast<float>(tokens.weighted(dy[blockIdx.x], token));
}

}  // namespace

void sequence_sum_cuda(const KernelArgs& args) {
  const TensorView& out = args.outputs[0];
  cuda::launch(sequence_sum_kernel, {out.elems(), kThreads}, args.stream, args.inputs[kX].as<float>(),
               SequenceTokens(args, args.inputs[kX]), out.as<float>());
}

void sequence_spread_cuda(const KernelArgs& args) {
  const TensorView &dy = args.inputs[kX], &dx = args.outputs[0];
  cuda::zero_bytes(dx.data, dx.bytes(), args.stream);
  cuda::launch(sequence_spread_kernel, {dy.elems(), kThreads}, args.stream, dy.as<float>(), SequenceTokens(args, dx),
               dx.as<float>());
}

}  // namespace spillway::ops
