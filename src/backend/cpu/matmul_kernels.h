// The innermost parts of the matrix product, one set for each instruction set, chosen at run time.
//
// Operands are packed into panels of 32-bit words: an f32, or two bf16 that are neighbours along k. A panel is
// [units][width], a unit being one f32 or one pair along k; the left operand's panels have `rows` words per unit, the
// right operand's `columns`. A tile is [rows][columns] f32: the product of two panels.
//
// Every f32 set with fused multiply-add computes the same bits: for one element, one chain over k.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace spillway::cpu {

enum class PanelFormat : uint8_t { kF32, kBF16Pairs };

// One operand seen as vectors along k: element (i, k) lies at data + i * stride + k where k_contiguous, else at
// data + k * stride + i.
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

// Where a tile goes: c = alpha * tile + bias + addend, for element (row, column) of the whole C.
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
};
struct TileRange {
  int64_t row = 0, rows = 0, column = 0, columns = 0;
};

// The left operand of a tile, packed or where it lies: row r's unit u is the word at data + r * row_bytes + u *
// unit_bytes.
struct TileLeft {
  const void* data = nullptr;
  int64_t row_bytes = 0, unit_bytes = 0;
};

struct MatmulKernels {
  static constexpr int kMaxRows = 14, kMaxColumns = 32;

  // tile = (accumulate ? tile : 0) + sum over units of left x right. `tile_stride` is in elements.
  using Tile = void (*)(const TileLeft& left, const float* right, int64_t units, float* tile, int64_t tile_stride,
                        bool accumulate);
  using Pack = void (*)(const PanelSource& source, const PanelRange& range, float* panel);
  // Writes the tile's range of C. `tile_stride` is in elements.
  using Finish = void (*)(const float* tile, int64_t tile_stride, const TileTarget& target, const TileRange& range);

  const char* name;
  int rows, columns;       // the largest tile
  const Tile* f32;         // f32[r - 1]: tiles of r rows, r in [1, rows]
  const Tile* f32_narrow;  // of half as many columns
  const Tile* bf16;        // the same for pairs of bf16; null without such instructions
  const Tile* bf16_narrow;
  Pack pack;
  Finish finish;
};

// Those that this CPU can run, slowest first; the portable one is always there.
[[nodiscard]] std::span<const MatmulKernels* const> supported_matmul_kernels();
// The fastest of them that the process allows itself (backend/cpu/isa.h).
[[nodiscard]] const MatmulKernels& best_matmul_kernels();

}  // namespace spillway::cpu
