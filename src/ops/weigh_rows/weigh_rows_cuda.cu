// The kernels are bound by memory: each row is read once. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/real.h"
#include "ops/weigh_rows/operands.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 128;

// Returns entry i of places, each within [0, count), or i where there are none.
__device__ int64_t place_or_own(const int32_t* places, int64_t i, int64_t count) {
  if (places == nullptr) return i;
  cuda::require(places[i] >= 0 && places[i] < count);
  return places[i];
}

// Uses a block for each row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    weigh_rows_kernel(const T* rows, const float* weights, const int32_t* order, int64_t pairs, int64_t width, T* out) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t row = blockIdx.x;
  const float weight = weights[place_or_own(order, row, pairs)];
  cuda::for_each_vector<kWidth>(width, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    auto v = cuda::load(rows + row * width, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v[i] *= weight;
    cuda::store(v, out + row * width, span);
  });
}

// Uses a block for each pair.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    row_products_kernel(const T* rows, const T* dy, const int32_t* places, int64_t pairs, int64_t width, float* out) {
  constexpr int kWidth = cuda::kVector<T>;
  const int64_t pair = blockIdx.x, at = place_or_own(places, pair, pairs) * width;
  float sum = 0;
  cuda::for_each_vector<kWidth>(width, threadIdx.x, kThreads, [&](cuda::Span<kWidth> span) {
    const auto a = cuda::load(rows + at, span), b = cuda::load(dy + at, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += a[i] * b[i];
  });
  sum = cuda::block_sum<kThreads>(sum);
  if (threadIdx.x == 0) out[pair] = sum;
}

}  // namespace

void weigh_rows_cuda(const KernelArgs& args) {
  using namespace weigh_rows_op;
  const TensorView &rows = args.inputs[kRows], &weights = args.inputs[kWeights];
  const int64_t pairs = weights.elems(), width = rows.shape[1] / weights.shape[1];
  with_real(rows.dtype, [&]<typename T>(T*) {
    cuda::launch(weigh_rows_kernel<T>, {pairs, kThreads}, args.stream, rows.as<T>(), weights.as<float>(),
                 args.inputs[kOrder].as<int32_t>(), pairs, width, args.outputs[0].as<T>());
  });
}

void row_products_cuda(const KernelArgs& args) {
  using namespace weigh_rows_op;
  const TensorView &rows = args.inputs[kRows], &out = args.outputs[0];
  const int64_t pairs = out.elems(), width = rows.shape[1] / out.shape[1];
  with_real(rows.dtype, [&]<typename T>(T*) {
    cuda::launch(row_products_kernel<T>, {pairs, kThreads}, args.stream, rows.as<T>(), args.inputs[kDy].as<T>(),
                 args.inputs[kPlaces].as<int32_t>(), pairs, width, out.as<float>());
  });
}

}  // namespace spillway::ops
