// The kernels are bound by memory: prediction and target are read (8 bytes per element in f32), backward the gradient
// is written, too. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/mean_squared_error/operands.h"
#include "ops/modulation/token_blocks.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

using namespace mean_squared_error_op;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / cuda::kWarp;

// Calls f(a null P*, a null T*) for the types of prediction and target.
template <typename Function>
void with_types(const KernelArgs& args, const Function& f) {
  with_real(args.inputs[kPrediction].dtype, [&]<typename P>(P* prediction) {
    with_real(args.inputs[kTarget].dtype, [&]<typename T>(T* target) { f(prediction, target); });
  });
}

// Uses a warp for each row.
template <typename P, typename T>
__global__ void __launch_bounds__(kThreads)
    row_squares_kernel(const P* prediction, const T* target, int64_t rows, int64_t width, double* of_rows) {
  constexpr int kWidth = cuda::kVector<P, T>;
  const int64_t row = int64_t{blockIdx.x} * kWarps + cuda::warp_index();
  if (row >= rows) return;
  double sum = 0;
  cuda::for_each_vector<kWidth>(width, cuda::lane_index(), cuda::kWarp, [&](cuda::Span<kWidth> span) {
    const cuda::Floats<kWidth> p = cuda::load(prediction + row * width, span),
                               t = cuda::load(target + row * width, span);
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares += (p[i] - t[i]) * (p[i] - t[i]);
    sum += squares;
  });
  sum = cuda::warp_reduce(sum, cuda::Sum());
  if (cuda::lane_index() == 0) of_rows[row] = sum;
}

// Uses one block, for one sequence after the other.
__global__ void __launch_bounds__(kThreads)
    sequence_errors_kernel(const double* of_rows, int64_t rows, const int32_t* offsets, const float* weights,
                           int64_t sequences, int64_t width, float* loss, float* of_each) {
  double total = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    double squares = 0;
    const int64_t begin = offsets[s] < 0 ? 0 : offsets[s], end = offsets[s + 1] < rows ? offsets[s + 1] : rows;
    for (int64_t row = begin + static_cast<int64_t>(threadIdx.x); row < end; row += kThreads) squares += of_rows[row];
    squares = cuda::block_sum<kThreads>(squares);
    const int64_t elems = (offsets[s + 1] - offsets[s]) * width;
    const double mean = elems > 0 ? squares / static_cast<double>(elems) : 0;
    total += double{weights[s]} * mean;
    if (threadIdx.x == 0) of_each[s] = static_cast<float>(mean);
  }
  if (threadIdx.x == 0) *loss = static_cast<float>(total);
}

// Uses a block for each row. If `dy` is null, it is one.
template <typename P, typename T>
__global__ void __launch_bounds__(kThreads)
    error_grad_kernel(const P* prediction, const T* target, const float* weights, TokenBlocks blocks, int64_t width,
                      const float* dy, P* dx) {
  constexpr int kWidth = cuda::kVector<P, T>;
  const int64_t at = blockIdx.x * width, sequence = blocks.sequence_of(blockIdx.x);
  float factor = 0;
  if (sequence >= 0) {
    const auto elems = static_cast<double>((blocks.end_of(sequence) - blocks.begin_of(sequence)) * width);
    factor = static_cast<float>((dy == nullptr ? 2.0 : 2.0 * double{*dy}) * double{weights[sequence]} / elems);
  }
  cuda::for_each_vector<kWidth>(width, static_cast<int>(threadIdx.x), kThreads, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> p = cuda::load(prediction + at, span);
    const cuda::Floats<kWidth> t = cuda::load(target + at, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) p[i] = (p[i] - t[i]) * factor;
    cuda::store(p, dx + at, span);
  });
}

}  // namespace

void mean_squared_error_cuda(const KernelArgs& args) {
  const TensorView &prediction = args.inputs[kPrediction], &weights = args.inputs[kWeights];
  const int64_t rows = prediction.shape[0], width = prediction.shape[1];
  auto* const of_rows = reinterpret_cast<double*>(args.workspace);
  with_types(args, [&]<typename P, typename T>(P*, T*) {
    cuda::launch(row_squares_kernel<P, T>, {div_ceil(rows, kWarps), kThreads}, args.stream, prediction.as<P>(),
                 args.inputs[kTarget].as<T>(), rows, width, of_rows);
  });
  cuda::launch(sequence_errors_kernel, {1, kThreads}, args.stream, of_rows, prediction.shape[0],
               args.inputs[kSeqOffsets].as<int32_t>(), weights.as<float>(), weights.shape[0], width,
               args.outputs[0].as<float>(), args.outputs[1].as<float>());
}

void mean_squared_error_grad_cuda(const KernelArgs& args) {
  const TensorView &prediction = args.inputs[kPrediction], &weights = args.inputs[kWeights];
  const int64_t rows = prediction.shape[0], width = prediction.shape[1];
  const TokenBlocks blocks(rows, args.inputs[kSeqOffsets].as<int32_t>(), weights.shape[0], 1);
  with_types(args, [&]<typename P, typename T>(P*, T*) {
    cuda::launch(error_grad_kernel<P, T>, {rows, kThreads}, args.stream, prediction.as<P>(),
                 args.inputs[kTarget].as<T>(), weights.as<float>(), blocks, width, args.inputs[kDy].as<float>(),
                 args.outputs[0].as<P>());
  });
}

}  // namespace spillway::ops
