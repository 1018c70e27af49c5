// Cuts a product into blocks, tasks and tiles: by its shape, the kernels and the number of threads alone.
#pragma once

#include <cstdint>

#include "ops/matmul/cpu/kernels.h"
#include "ops/matmul/cpu/product.h"

namespace spillway::cpu {

// Sizes of blocks; words are of 4 bytes.
constexpr int64_t kMaxUnits = 4096;        // units of k packed at once
constexpr int64_t kPackedWords = 1 << 20;  // of the left operand: at least 256 rows of so many units
constexpr int64_t kWaitingSums = 1 << 19;  // sums of a block whose k is longer than kMaxUnits
constexpr int64_t kTaskSums = 1 << 16;     // sums of one task that wait, in the second cache with its rows
constexpr int64_t kMaxGroup = 4;           // column panels of a task
constexpr int64_t kMaxRowScales = 1024;    // of a row of codes that is decoded while it is multiplied
constexpr int64_t kCachedBytes = 1 << 20;  // of a C that the second cache holds for its next reader
constexpr int64_t kMaxSwapped = 64;  // columns of a C that is computed transposed while its left operand is packed

struct MatmulOperand {
  PanelSource source;
  const MatrixDecoder* decoder = nullptr;  // null where the elements lie in memory
};

// The tail of a product in terms of panels, which have the rows and columns of the product's own. Its sums are added to
// a tile's behind the last unit of k.
struct MatmulTail {
  PanelSource left = {}, right = {};
  int64_t k = 0, units = 0, depth = 1;  // of k, as in MatmulJob; units of whole blocks, zeros behind k
  // Whether the panels of the left or of the right operand are those of A', which are multiplied by `factor`.
  bool scales_left = true;
  float factor = 1;
};

// A product in terms of panels. If C has few columns and many rows, its transpose is computed, so that the long side
// fills the vectors; no sum changes by that.
struct MatmulJob {
  const MatmulKernels& kernels;
  const MatmulKernels::Tiles& tiles;
  const MatmulKernels::Tile* products;  // of `columns` columns
  MatmulOperand left, right;
  TileTarget target;
  int64_t m, n, k, units, unit_elems;
  bool swapped;
  bool direct = false;       // whether the left operand is read in place
  bool reads_right = false;  // swapped, to read the former right operand from memory only once
  // Set if whole right panels of few rows are multiplied as they are read or decoded; else null.
  const MatmulKernels::StreamedTile* streamed = nullptr;
  const MatmulKernels::CodedTile* coded = nullptr;
  int64_t columns = 0;  // of a tile
  // The units of k in one tile: an even split of k.
  int64_t depth = 0;
  // The row panels have `height` rows, the last one zeros below row m.
  int64_t height = 0, row_panels = 0, column_panels = 0;
  // The size of one block.
  int64_t block_row_panels = 0, block_column_panels = 0, block_units = 0;
  // The size of one task.
  int64_t task_row_panels = 0, task_column_panels = 0;

  // Whether right panels are packed once for all tasks, in the room that left panels leave.
  bool shares_right = false;
  // Whether a task multiplies a row panel by all its columns before the next one, and finishes whole rows of C: k is so
  // short that a product is mostly reading and writing C.
  bool in_strips = false;
  MatmulTail tail = {};

  [[nodiscard]] bool streams() const { return streamed != nullptr || coded != nullptr; }
  [[nodiscard]] int64_t panel_words() const { return height * tiles.left_units(block_units); }
  [[nodiscard]] int64_t left_block_words() const { return direct ? 0 : block_row_panels * panel_words(); }
  [[nodiscard]] int64_t tile_words() const { return height * columns; }
  // Returns true if sums wait in memory between one depth and the next.
  [[nodiscard]] bool sums_wait() const { return units > depth; }
  // Returns true if they wait outside of tasks, between one block of units and the next.
  [[nodiscard]] bool blocks_wait() const { return units > block_units; }
};

// Returns the words of the workspace for panels that all tasks share, and for those of a tail.
[[nodiscard]] int64_t shared_panel_words(const MatmulShape& shape);
[[nodiscard]] int64_t tail_panel_words(const MatmulShape& shape);

// REQUIRES: bf16 tiles if both matrices are bf16 and the path is kNativeDot.
[[nodiscard]] MatmulJob cut_matmul(const MatmulKernels& kernels, Bf16Path path, const MatmulArgs& args, int threads);

}  // namespace spillway::cpu
