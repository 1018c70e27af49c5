// The kernels are bound by memory: every element is read and written once.
#include "backend/kernel.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "ops/simd.h"
#include "ops/split_rows/place.h"

namespace spillway::ops {

void split_rows_cpu(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t columns = x.shape[1], row_bytes = columns * size_of(x.dtype);
  for (int64_t i = 0; i < std::ssize(args.outputs); ++i) {
    const TensorView& tile = args.outputs[static_cast<size_t>(i)];
    const TilePlace place = place_of_tile(i, tile.shape[0], x);
    args.threads->parallel_for(tile.shape[0], row_grain(columns), [&](int64_t begin, int64_t end, int) {
      const int64_t copied = std::clamp(place.rows, begin, end);
      copy_memory(tile.as<std::byte>() + begin * row_bytes, x.as<std::byte>() + (place.first + begin) * row_bytes,
                  (copied - begin) * row_bytes);
      fill_memory(tile.as<std::byte>() + copied * row_bytes, 0, (end - copied) * row_bytes);
    });
  }
}

void join_rows_cpu(const KernelArgs& args) {
  const TensorView& out = args.outputs[0];
  const int64_t columns = out.shape[1], row_bytes = columns * size_of(out.dtype);
  const int64_t tile_rows = rows_of_tiles(args);
  for (int64_t i = 0; i < std::ssize(args.inputs); ++i) {
    const auto* from = args.inputs[static_cast<size_t>(i)].as<std::byte>();
    const TilePlace place = place_of_tile(i, tile_rows, out);
    args.threads->parallel_for(place.rows, row_grain(columns), [&](int64_t begin, int64_t end, int) {
      std::byte* to = out.as<std::byte>() + (place.first + begin) * row_bytes;
      if (from != nullptr) {
        copy_memory(to, from + begin * row_bytes, (end - begin) * row_bytes);
      } else {
        fill_memory(to, 0, (end - begin) * row_bytes);
      }
    });
  }
}

}  // namespace spillway::ops
