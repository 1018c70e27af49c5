// The kernels are bound by memory: x is read once. Not yet measured.
#include "backend/kernel.h"
#include "ops/column_sums.cuh"

namespace spillway::ops {
namespace {

// A block sums a tile of columns over a block of rows: its warps take rows in turn, its lanes vectors of columns.
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / cuda::kWarp;
template <typename T>
constexpr int kTileColumns = cuda::kWarp* cuda::kVector<T>;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    sum_rows_kernel(const T* x, int64_t rows, int64_t width, int64_t block_rows, float* partial) {
  constexpr int kWidth = cuda::kVector<T>, kTile = kTileColumns<T>;
  __shared__ float sums[kWarps][kTile];
  const int64_t tiles = div_ceil(width, kTile), block = blockIdx.x / tiles, first_column = blockIdx.x % tiles * kTile;
  const int64_t column = first_column + cuda::lane_index() * kWidth;
  const int64_t end = std::min(rows, (block + 1) * block_rows);
  cuda::Floats<kWidth> sum = {};
  if (column < width) {
    const cuda::Span<kWidth> span = cuda::span_at<kWidth>(column, width);
    for (int64_t row = block * block_rows + cuda::warp_index(); row < end; row += kWarps) {
      const cuda::Floats<kWidth> more = cuda::load(x + row * width, span);
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

void sum_rows_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t rows = x.shape[0], width = x.shape[1], block_rows = rows_of_block(rows);
  const int64_t blocks = div_ceil(rows, block_rows);
  auto* partial = reinterpret_cast<float*>(args.workspace);
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(sum_rows_kernel<T>, {blocks * div_ceil(width, kTileColumns<T>), kThreads}, args.stream, x.as<T>(),
                 rows, width, block_rows, partial);
  });
  add_blocks(partial, blocks, args.inputs[1], args.outputs[0], args.stream);
}

}  // namespace spillway::ops
