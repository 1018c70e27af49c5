// Bound by memory. Forward: y is read and written (4 bytes an element in bf16), the bias stays in the cache. Backward:
// dy is read once. Not yet measured.
#include "backend/kernel.h"
#include "ops/column_sums.cuh"

namespace spillway::ops {
namespace {

// A block for each row.
template <typename T, typename B>
__global__ void add_bias_kernel(const T* y, const B* bias, T* out, int64_t width) {
  constexpr int kWidth = cuda::kVector<T, B>;
  const int64_t row = int64_t{blockIdx.x} * width;
  cuda::for_each_vector<kWidth>(width, threadIdx.x, blockDim.x, [&](cuda::Span<kWidth> span) {
    cuda::Floats<kWidth> sum = cuda::load(y + row, span);
    const cuda::Floats<kWidth> more = cuda::load(bias, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += more[i];
    cuda::store(sum, out + row, span);
  });
}

// A block sums a tile of columns over a block of rows: its warps take rows in turn, its lanes vectors of columns.
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / cuda::kWarp;
template <typename T>
constexpr int kTileColumns = cuda::kWarp* cuda::kVector<T>;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    sum_rows_kernel(const T* dy, int64_t rows, int64_t width, int64_t block_rows, float* partial) {
  constexpr int kWidth = cuda::kVector<T>, kTile = kTileColumns<T>;
  __shared__ float sums[kWarps][kTile];
  const int64_t tiles = div_ceil(width, kTile), block = blockIdx.x / tiles, first_column = blockIdx.x % tiles * kTile;
  const int64_t column = first_column + cuda::lane_index() * kWidth;
  const int64_t end = std::min(rows, (block + 1) * block_rows);
  cuda::Floats<kWidth> sum = {};
  if (column < width) {
    const cuda::Span<kWidth> span = cuda::span_at<kWidth>(column, width);
    for (int64_t row = block * block_rows + cuda::warp_index(); row < end; row += kWarps) {
      const cuda::Floats<kWidth> more = cuda::load(dy + row * width, span);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += more[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums[cuda::warp_index()][cuda::lane_index() * kWidth + i] = sum[i];
  __syncthreads();
  static_assert(kTile <= kThreads, "a thread adds up one column");
  const int thread = static_cast<int>(threadIdx.x);
  if (thread >= kTile || first_column + thread >= width) return;
  float total = 0;
  for (int warp = 0; warp < kWarps; ++warp) total += sums[warp][thread];
  partial[block * width + first_column + thread] = total;
}

}  // namespace

void add_bias_cuda(const KernelArgs& args) {
  const TensorView &y = args.inputs[0], &bias = args.inputs[1], &out = args.outputs[0];
  with_real(y.dtype, [&]<typename T>(T*) {
    with_real(bias.dtype, [&]<typename B>(B*) {
      const int threads = cuda::threads_for(div_ceil(y.shape[1], cuda::kVector<T, B>));
      cuda::launch(add_bias_kernel<T, B>, {y.shape[0], threads}, args.stream, y.as<T>(), bias.as<B>(), out.as<T>(),
                   y.shape[1]);
    });
  });
}

void add_bias_grad_cuda(const KernelArgs& args) {
  const TensorView& dy = args.inputs[0];
  const int64_t rows = dy.shape[0], width = dy.shape[1], block_rows = rows_of_block(rows);
  const int64_t blocks = div_ceil(rows, block_rows);
  auto* partial = reinterpret_cast<float*>(args.workspace);
  with_real(dy.dtype, [&]<typename T>(T*) {
    cuda::launch(sum_rows_kernel<T>, {blocks * div_ceil(width, kTileColumns<T>), kThreads}, args.stream, dy.as<T>(),
                 rows, width, block_rows, partial);
  });
  add_blocks(partial, blocks, args.inputs[1], args.outputs[0], args.stream);
}

}  // namespace spillway::ops
