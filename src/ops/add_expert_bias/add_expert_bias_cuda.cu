// The kernels are bound by memory: each row is read once. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/add_expert_bias/operands.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace add_expert_bias_op;

constexpr int kThreads = 128;

// Uses a block for each row, which finds its expert in the offsets.
template <typename T, typename B>
__global__ void __launch_bounds__(kThreads) add_expert_bias_kernel(const T* rows, const B* bias, const int32_t* offsets,
                                                                   int64_t experts, int64_t width, T* out) {
  constexpr int kWidth = cuda::kVector<T, B>;
  const int64_t row = blockIdx.x;
  int64_t low = 0, high = experts - 1;  // the first expert whose rows end behind this one
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (offsets[middle + 1] > row) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  cuda::for_each_vector<kWidth>(width, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    auto v = cuda::load(rows + row * width, span);
    const auto b = cuda::load(bias + low * width, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] += b[i];
    cuda::store(v, out + row * width, span);
  });
}

// Uses a thread for each column of an expert, which goes down its rows.
template <typename T, typename Out>
__global__ void __launch_bounds__(kThreads)
    add_expert_bias_grad_kernel(const T* dy, const int32_t* offsets, int64_t rows, int64_t width, int64_t pieces,
                                Out* out) {
  const int64_t expert = blockIdx.x / pieces, column = blockIdx.x % pieces * kThreads + threadIdx.x;
  if (column >= width) return;
  const int64_t begin = offsets[expert], end = offsets[expert + 1];
  cuda::require(begin >= 0 && begin <= end && end <= rows);
  float sum = 0;
  for (int64_t row = begin; row < end; ++row) sum += to_float(dy[row * width + column]);
  out[expert * width + column] = cuda::from_float<Out>(sum);
}

}  // namespace

void add_expert_bias_cuda(const KernelArgs& args) {
  const TensorView &rows = args.inputs[kRows], &bias = args.inputs[kBias];
  const int64_t width = bias.shape[1];
  if (rows.elems() == 0) return;
  with_real(rows.dtype, [&]<typename T>(T*) {
    with_real(bias.dtype, [&]<typename B>(B*) {
      cuda::launch(add_expert_bias_kernel<T, B>, {rows.elems() / width, kThreads}, args.stream, rows.as<T>(),
                   bias.as<B>(), args.inputs[kOffsets].as<int32_t>(), bias.shape[0], width, args.outputs[0].as<T>());
    });
  });
}

void add_expert_bias_grad_cuda(const KernelArgs& args) {
  const TensorView &dy = args.inputs[kDy], &out = args.outputs[0];
  const int64_t width = out.shape[1], pieces = div_ceil(width, int64_t{kThreads});
  with_real(dy.dtype, [&]<typename T>(T*) {
    with_real(out.dtype, [&]<typename Out>(Out*) {
      cuda::launch(add_expert_bias_grad_kernel<T, Out>, {out.shape[0] * pieces, kThreads}, args.stream, dy.as<T>(),
                   args.inputs[kGradOffsets].as<int32_t>(), dy.elems() / width, width, pieces, out.as<Out>());
    });
  });
}

}  // namespace spillway::ops
