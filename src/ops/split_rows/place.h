// The place of a tile's rows in the whole matrix.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/kernel.h"
#include "tensor/view.h"

namespace spillway::ops {

struct TilePlace {
  int64_t first = 0;  // row of the whole
  int64_t rows = 0;   // that the whole has; those behind them are zeros in the tile
};

[[nodiscard]] inline TilePlace place_of_tile(int64_t tile, int64_t tile_rows, const TensorView& whole) {
  const int64_t first = std::min(tile * tile_rows, whole.shape[0]);
  return {first, std::min(tile_rows, whole.shape[0] - first)};
}

// Returns the rows of the tiles that an operation joins, of which some may be absent.
[[nodiscard]] inline int64_t rows_of_tiles(const KernelArgs& args) {
  const auto there = std::find_if(args.inputs.begin(), args.inputs.end(),
                                  [](const TensorView& input) { return input.data != nullptr; });
  return there->shape[0];
}

}  // namespace spillway::ops
