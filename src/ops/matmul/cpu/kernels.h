// The innermost parts of the matrix product, one set for each instruction set, chosen at run time.
//
// Operands are packed into panels of 32-bit words: an f32, or two bf16 that are neighbours along k. A right panel is
// [units][columns], a unit being one f32 or one pair along k; a left panel is [units / block][rows][block]. A tile is
// [rows][columns] f32: the product of two panels.
//
// Every f32 set with fused multiply-add computes the same bits: for one element, one chain over k.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace spillway::cpu {

enum class PanelFormat : uint8_t { kF32, kBF16Pairs };

// One operand seen as vectors along k: element (i, k) lies at data + i * stride + k if k_contiguous, else at data + k *
// stride + i.
struct PanelSource {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t stride = 0;
  bool k_contiguous = true;
  PanelFormat format = PanelFormat::kF32;  // kBF16Pairs only of bf16 data
};

// The vectors [first, first + count) of a source, elements [k_begin, k_end); those up to `width` are filled with zeros.
struct PanelRange {
  int64_t first = 0, count = 0, width = 0, k_begin = 0, k_end = 0;
};

// The target of a tile: c = alpha * tile + bias + addend, for element (row, column) of the whole C.
struct TileTarget {
  void* c = nullptr;
  DType c_dtype = DType::kF32;
  int64_t c_stride = 0;
  float alpha = 1;
  const void* addend = nullptr;
  DType addend_dtype = DType::kF32;
  int64_t addend_stride = 0;
  const void* bias = nullptr;
  DType bias_dtype = DType::kF32;
  bool past_caches = false;  // whether whole lines of C are written without reading them first, past the caches
};
struct TileRange {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};

// A further product of a tile's rows and columns: packed panels of whole blocks.
struct TileTail {
  const float *left = nullptr, *right = nullptr;
  int64_t height = 0, units = 0;
};

// The left operand of a tile, packed or in place: row r's units from b * block on are the words at data + r * row_bytes
// + b * block_bytes, `block` of them or the rest of k.
//
// `ahead`, if not null, is a row like them to prefetch: that row and the next ones, up to `ahead_rows`, are read by
// later tiles, block for block. `tail`, if not null, is added behind the last unit; only by tiles that join tails.
struct TileLeft {
  const void* data = nullptr;
  int64_t row_bytes = 0, block_bytes = 0;
  const char* ahead = nullptr;
  int64_t ahead_rows = 0;
  const TileTail* tail = nullptr;
};

// A right panel of whole rows of codes: element (i, k) is table[code] * scale, or code * scale of a code that is an i8,
// with the scale at scales[k / scale_elems][i], and may be rounded to bf16. All of them are zero or normal numbers.
struct CodedPanel {
  static constexpr int64_t kElems = 32;  // k begins and ends at a multiple of these, and so do scales

  const char* codes = nullptr;  // of the first row: two 4-bit codes a byte, the first in the upper half, or i8
  int64_t row_bytes = 0;
  const float* table = nullptr;  // of 16 values; null: i8
  const float* scales = nullptr;
  int64_t scale_elems = 0;
};

struct MatmulKernels {
  static constexpr int kMaxRows = 32, kMaxColumns = 32;
  // The most words of a left panel for each element along k: 14 rows of f32, or 32 of pairs.
  static constexpr int kMaxPanelWords = 16;
  static constexpr int64_t kMaxDepth = 320;

  // Computes tile = (accumulate ? tile : 0) + sum over units of left x right. `tile_stride` is in elements.
  // REQUIRES: a TileRun of this thread.
  using Tile = void (*)(const TileLeft& left, const float* right, int64_t units, float* tile, int64_t tile_stride,
                        bool accumulate);
  using Pack = void (*)(const PanelSource& source, const PanelRange& range, float* panel);
  // Writes the tile's range of C. `tile_stride` is in elements.
  using Finish = void (*)(const float* tile, int64_t tile_stride, const TileTarget& target, const TileRange& range);

  // Does what a Tile does with the panel of Streamed::element_columns that lies at `range`, whole, of vectors along
  // memory rows.
  using StreamedTile = void (*)(const TileLeft& left, const PanelSource& right, const PanelRange& range, float* tile,
                                int64_t tile_stride, bool accumulate);
  // Does the same with a panel of code_columns.
  using CodedTile = void (*)(const TileLeft& left, const CodedPanel& right, int64_t k_begin, int64_t k_end, float* tile,
                             int64_t tile_stride, bool accumulate);

  // The tiles for products of so few rows that packing their right operand would take longer than the product. Tiles
  // are of as many rows as a Tile, [r - 1] of r rows.
  struct Streamed {
    int64_t max_rows = 0;                                         // of a product, measured: some tiles' worth
    int64_t max_widened_rows = 0;                                 // the same where bf16 is read as f32
    int element_columns = 0, code_columns = 0;                    // of a tile: those of a whole Tile, or half of them
    const StreamedTile *elements = nullptr, *widened = nullptr;   // of the format; of bf16 as f32
    const CodedTile *four_bits = nullptr, *eight_bits = nullptr;  // not rounded, or as the format is
    const CodedTile *four_bits_to_bf16 = nullptr, *eight_bits_to_bf16 = nullptr;

    [[nodiscard]] const CodedTile* coded(bool is_four_bits, bool to_bf16) const {
      return is_four_bits ? to_bf16 ? four_bits_to_bf16 : four_bits : to_bf16 ? eight_bits_to_bf16 : eight_bits;
    }
  };

  // The products of one format. Words are 4 bytes.
  struct Tiles {
    int rows = 0, columns = 0;     // the largest tile; 0: this CPU has no instructions for the format
    int64_t block = 1;             // units of a row that lie together in a left panel
    const Tile* wide = nullptr;    // wide[r - 1]: tiles of r rows, r in [1, rows]
    const Tile* narrow = nullptr;  // of half as many columns
    Pack pack_left = nullptr;      // whole blocks, the last one with zeros behind k
    int64_t depth = 256;           // units of k that a tile multiplies in one go, at most: kMaxDepth or fewer
    int64_t left_words = 1 << 17;  // of the left operand's rows that stay in the second cache
    int64_t few_rows = 0;          // of so many or fewer, packing the right operand would take longer than the product
    void (*leave)() = nullptr;     // called by a thread after its last tile of a run (TileRun), if set
    bool joins_tails = false;      // whether a Tile adds the tail that its left operand names
    // Whether products are so fast that they wait for memory: the left operand's rows then stay in the second cache,
    // all threads share right panels, and a C that the cache cannot hold is written past it.
    bool waits_for_memory = false;
    const Streamed* streamed = nullptr;  // null: the right operand is always packed

    // Returns the words along k of a left panel.
    [[nodiscard]] int64_t left_units(int64_t units) const { return (units + block - 1) / block * block; }
    // Returns a left panel of `height` rows, as pack_left() makes it.
    [[nodiscard]] TileLeft packed(const float* panel, int64_t height) const {
      return {.data = panel, .row_bytes = 4 * block, .block_bytes = 4 * block * height};
    }
    // Returns rows that are `row_bytes` apart, of words along k.
    [[nodiscard]] TileLeft in_place(const void* data, int64_t row_bytes) const {
      return {.data = data, .row_bytes = row_bytes, .block_bytes = 4 * block};
    }
  };

  const char* name;
  Tiles f32, bf16;
  Pack pack;  // right panels
  Finish finish;

  [[nodiscard]] const Tiles& of(PanelFormat format) const { return format == PanelFormat::kF32 ? f32 : bf16; }
  [[nodiscard]] bool has_bf16() const { return bf16.rows > 0; }
};

// A thread's run of tiles: every call of a Tile lies within one. Registers that are set up for tiles stay so until its
// end, and no longer: other libraries of the process set them up as they need.
class TileRun {
 public:
  explicit TileRun(const MatmulKernels::Tiles& tiles) : leave_(tiles.leave) {}
  ~TileRun() {
    if (leave_ != nullptr) leave_();
  }
  TileRun(const TileRun&) = delete;
  TileRun& operator=(const TileRun&) = delete;

 private:
  void (*leave_)();
};

// Returns those that this CPU can run, slowest first; the portable one is always there.
[[nodiscard]] std::span<const MatmulKernels* const> supported_matmul_kernels();
// Returns the fastest of them that the process allows itself (backend/cpu/isa.h).
[[nodiscard]] const MatmulKernels& best_matmul_kernels();

}  // namespace spillway::cpu
