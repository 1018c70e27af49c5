// The tiles of cached attention on the CPU, and the workspace that they fill.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "graph/attributes.h"

namespace spillway::ops {

constexpr int64_t kTileKeys = 64;
constexpr int64_t kTileRows = 64;  // a row is one token with one of the query heads that share a key head

struct TileSizes {
  int64_t heads, kv_heads, head_size, group, window;
  int64_t tile_tokens;  // of the queries of one tile
  int64_t width;        // head_size, rounded up to whole register tiles

  explicit TileSizes(const Attributes& attributes)
      : heads(attributes.integer("heads")),
        kv_heads(attributes.integer("kv_heads")),
        head_size(attributes.integer("head_size")),
        group(heads / kv_heads),
        window(attributes.integer("sliding_window")),
        tile_tokens(std::max<int64_t>(1, kTileRows / group)),
        width(align_up(head_size, 32)) {}

  // Of `tokens` tokens, rounded up likewise.
  [[nodiscard]] int64_t rows(int64_t tokens) const { return align_up(tokens * group, 4); }

  // Floats of one thread: queries and sums, keys as they are and transposed, scores, and two numbers per row.
  [[nodiscard]] int64_t thread_floats() const {
    const int64_t most = rows(tile_tokens);
    return (2 * most + 2 * kTileKeys) * width + most * kTileKeys + align_up(2 * most, 16);
  }
};

}  // namespace spillway::ops
