// The tiles of the attention kernels on the CPU, and the workspace that they fill.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/math.h"
#include "graph/attributes.h"
#include "ops/attention/attention.h"

namespace spillway::ops {

constexpr int64_t kTileKeys = 64;
constexpr int64_t kTileRows = 64;  // a row is one token with one of the query heads that share a key head
constexpr int64_t kMostGroup = 512;

[[nodiscard]] Attributes to_attributes(const AttentionOptions& options);
// Throws InputError where heads do not divide, or a size is out of range.
void expect_attention_sizes(std::string_view op, const Attributes& attributes);

struct AttentionSizes {
  int64_t heads, kv_heads, head_size, group, window;
  int64_t tile_tokens;  // of the queries of one tile
  int64_t tile_rows;    // tile_tokens * group, rounded up to whole register tiles
  int64_t width;        // head_size, rounded up likewise

  explicit AttentionSizes(const Attributes& attributes)
      : heads(attributes.integer("heads")),
        kv_heads(attributes.integer("kv_heads")),
        head_size(attributes.integer("head_size")),
        group(heads / kv_heads),
        window(attributes.integer("sliding_window")),
        tile_tokens(std::max<int64_t>(1, kTileRows / group)),
        tile_rows(align_up(tile_tokens * group, 4)),
        width(align_up(head_size, 32)) {}

  // Floats of one thread, whatever the pass: tiles of queries and their cotangents, two of sums, three of keys, two of
  // scores, and numbers of rows.
  [[nodiscard]] int64_t thread_floats() const {
    return (2 * tile_rows + 2 * std::max(tile_rows, kTileKeys) + 3 * kTileKeys) * width + 2 * tile_rows * kTileKeys +
           align_up(2 * tile_rows, 16);
  }
};

}  // namespace spillway::ops
