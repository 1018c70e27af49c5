// The kernels are bound by memory: every element is read and written once, by the runtime's own copies. Not yet
// measured.
#include "backend/cuda/launch.cuh"
#include "backend/kernel.h"
#include "ops/split_rows/place.h"

namespace spillway::ops {

void split_rows_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t row_bytes = x.shape[1] * size_of(x.dtype);
  for (int64_t i = 0; i < std::ssize(args.outputs); ++i) {
    const TensorView& tile = args.outputs[static_cast<size_t>(i)];
    const TilePlace place = place_of_tile(i, tile.shape[0], x);
    cuda::copy_bytes(x.as<std::byte>() + place.first * row_bytes, tile.data, place.rows * row_bytes, args.stream);
    cuda::zero_bytes(tile.as<std::byte>() + place.rows * row_bytes, (tile.shape[0] - place.rows) * row_bytes,
                     args.stream);
  }
}

void join_rows_cuda(const KernelArgs& args) {
  const TensorView& out = args.outputs[0];
  const int64_t row_bytes = out.shape[1] * size_of(out.dtype), tile_rows = rows_of_tiles(args);
  for (int64_t i = 0; i < std::ssize(args.inputs); ++i) {
    const TensorView& tile = args.inputs[static_cast<size_t>(i)];
    const TilePlace place = place_of_tile(i, tile_rows, out);
    std::byte* to = out.as<std::byte>() + place.first * row_bytes;
    if (tile.data != nullptr) {
      cuda::copy_bytes(tile.data, to, place.rows * row_bytes, args.stream);
    } else {
      cuda::zero_bytes(to, place.rows * row_bytes, args.stream);
    }
  }
}

}  // namespace spillway::ops
