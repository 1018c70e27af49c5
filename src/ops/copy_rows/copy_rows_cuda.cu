// The kernel is bound by memory: each row is read and written. Not yet measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/copy_rows/operands.h"
#include "ops/real.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 256;

// Copies a row of bytes, `tiles` blocks to each.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    copy_rows_kernel(const int32_t* from, const int32_t* to, int64_t rows, int64_t width, int64_t tiles, T* table) {
  const int64_t row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const int64_t source = from[row], target = to[row];
  cuda::require(source >= 0 && source < rows && target >= 0 && target < rows);
  if (source == target) return;
  for (int64_t i = tile * kThreads + threadIdx.x; i < width; i += tiles * kThreads)
    table[target * width + i] = table[source * width + i];
}

template <typename T>
void copy_rows_of(const KernelArgs& args, int64_t row_bytes) {
  using namespace copy_rows_op;
  const TensorView &from = args.inputs[kFrom], &out = args.outputs[0];
  constexpr int64_t kMaxTiles = 64;
  const int64_t width = row_bytes / static_cast<int64_t>(sizeof(T));
  const int64_t tiles = std::min(kMaxTiles, div_ceil(width, int64_t{kThreads}));
  cuda::launch(copy_rows_kernel<T>, {from.elems() * tiles, kThreads}, args.stream, from.as<int32_t>(),
               args.inputs[kTo].as<int32_t>(), out.shape[0], width, tiles, out.as<T>());
}

}  // namespace

void copy_rows_cuda(const KernelArgs& args) {
  const TensorView &table = args.inputs[copy_rows_op::kTable], &out = args.outputs[0];
  const int64_t row_bytes = out.shape[1] * size_of(out.dtype);
  cuda::copy_bytes(table.data, out.data, out.bytes(), args.stream);
  if (row_bytes % static_cast<int64_t>(sizeof(uint32_t)) == 0) {
    copy_rows_of<uint32_t>(args, row_bytes);
  } else {
    copy_rows_of<uint8_t>(args, row_bytes);
  }
}

}  // namespace spillway::ops
