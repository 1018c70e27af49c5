// The matrix product's inner loops, written once over a small vector type `Isa` and compiled once for each instruction
// set. Included only by <isa>.cc, inside its target pragma; everything is local to that file, so that no code
// compiled for a newer CPU can be linked into a path for an older one.
//
// Isa must give: Vector, kLanes, zero, load / store of f32 (with a count: the rest reads as zero and is not written),
// load / store of bf16 (rounding to nearest even), load_halves (bits), broadcast, add, multiply_add, transpose, pair_up
// (two rows of bf16 to pairs), keep (the first lanes, zeros behind them). It may give faster ones than these:
// store_two, store_pairs, load_quad (four words of kLanes rows, transposed), load_quad_of (the same of any rows; with
// it come lower and upper, a bf16 of each word as f32), PastCaches (the same set, whose store_two to whole lines does
// not read them first; a thread fences its stores when it leaves its tiles).
#pragma once

#include <array>
#include <utility>

#include "ops/matmul/cpu/kernels.h"

namespace spillway::cpu {
namespace {

// Registers hold kRows x kVectors sums; each unit loads kVectors vectors of the right panel and broadcasts kRows words.
// A pointer serves three rows, so that 14 rows of any distance need five. Left panels lie behind each other, and the
// CPU's own prefetchers stop at the end of each page: words of the next lines, and of the next panel, are prefetched.
template <typename Isa, int kRows, int kVectors>
void multiply_tile(const TileLeft& left, const float* right, int64_t units, float* tile, int64_t tile_stride,
                   bool accumulate) {
  using Vector = typename Isa::Vector;
  constexpr int kPointers = (kRows + 2) / 3;
  constexpr int64_t kAhead = 2048;  // bytes, measured: from the third cache they come within the time of so many
  Vector sums[kRows][kVectors];
#pragma GCC unroll 14
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) sums[row][i] = Isa::zero();
  }
  const int64_t row_bytes = left.row_bytes, unit_bytes = left.block_bytes;  // blocks of one unit
  const char* words[kPointers];
#pragma GCC unroll 5
  for (int i = 0; i < kPointers; ++i) words[i] = static_cast<const char*>(left.data) + 3 * i * row_bytes;
  for (int64_t unit = 0; unit < units; ++unit) {
    Vector b[kVectors];
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) b[i] = Isa::load(right + i * Isa::kLanes);
    __builtin_prefetch(words[0] + kAhead);
#pragma GCC unroll 14
    for (int row = 0; row < kRows; ++row) {
      const Vector a = Isa::broadcast(words[row / 3] + row % 3 * row_bytes);
#pragma GCC unroll 2
      for (int i = 0; i < kVectors; ++i) sums[row][i] = Isa::multiply_add(a, b[i], sums[row][i]);
    }
#pragma GCC unroll 5
    for (int i = 0; i < kPointers; ++i) words[i] += unit_bytes;
    right += kVectors * Isa::kLanes;
  }
#pragma GCC unroll 14
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) {
      float* out = tile + row * tile_stride + i * Isa::kLanes;
      Isa::store(out, accumulate ? Isa::add(Isa::load(out), sums[row][i]) : sums[row][i]);
    }
  }
}

// Returns tiles of 1 row to as many as there are numbers: [r - 1] of r rows.
template <typename Isa, int kVectors, int... kRowsBelow>
constexpr std::array<MatmulKernels::Tile, sizeof...(kRowsBelow)> multiply_tiles(
    std::integer_sequence<int, kRowsBelow...>) {
  return {multiply_tile<Isa, kRowsBelow + 1, kVectors>...};
}

inline int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

// Returns true if a panel's row may be stored in whole vectors, except for the last one: elements beyond `width` fall
// into the next row, which is stored after it. Stores of some lanes take AVX2 many times longer.
template <typename Isa>
bool rows_may_overlap(int64_t width) {
  return Isa::kLanes <= 2 * width || width % Isa::kLanes == 0;
}

template <typename Isa, typename T>
typename Isa::Vector load_some(const T* from, int64_t count) {
  return count >= Isa::kLanes ? Isa::load(from) : count <= 0 ? Isa::zero() : Isa::load(from, count);
}
// Loads `halves` half words unchanged, zeros behind them.
template <typename Isa>
typename Isa::Vector load_some_halves(const char* from, int64_t halves) {
  return halves >= 2 * Isa::kLanes ? Isa::load_halves(from) : Isa::load_halves(from, halves);
}

// Loads kLanes rows of as many words, `row_bytes` apart: block[i] gets word i of each.
template <typename Isa>
[[gnu::always_inline]] inline void load_transposed(const char* corner, int64_t row_bytes,
                                                   typename Isa::Vector (&block)[Isa::kLanes]) {
  using Vector = typename Isa::Vector;
  if constexpr (requires(Vector(&quad)[4]) { Isa::load_quad(corner, row_bytes, quad); }) {
#pragma GCC unroll 4
    for (int i = 0; i < Isa::kLanes; i += 4) {
      Vector quad[4];
      Isa::load_quad(corner + 4 * i, row_bytes, quad);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) block[i + j] = quad[j];
    }
  } else {
    for (int lane = 0; lane < Isa::kLanes; ++lane) block[lane] = Isa::load_halves(corner + lane * row_bytes);
    Isa::transpose(block);
  }
}

// The conversion of a source's elements to words along k.
struct Words {
  bool widen;  // an f32 of a bf16
  int64_t unit_elems, elem_bytes;

  explicit Words(const PanelSource& source)
      : widen(source.format == PanelFormat::kF32 && source.dtype == DType::kBF16),
        unit_elems(source.format == PanelFormat::kBF16Pairs ? 2 : 1),
        elem_bytes(source.dtype == DType::kBF16 ? 2 : 4) {}
};

// Sets lane l of block[i] to word i of the row at corner + row_bytes[l], of which `elems` elements are there, at most
// kLanes words of them; lanes from `valid` on get zeros.
template <typename Isa>
void load_block(const char* corner, const int64_t (&row_bytes)[Isa::kLanes], int64_t valid, int64_t elems,
                const Words& words, typename Isa::Vector (&block)[Isa::kLanes]) {
  const bool whole = valid == Isa::kLanes && elems == Isa::kLanes * words.unit_elems;
#pragma GCC unroll 16
  for (int lane = 0; lane < Isa::kLanes; ++lane) {
    const char* from = corner + row_bytes[lane];
    block[lane] = whole && words.widen ? Isa::load(reinterpret_cast<const bf16*>(from))
                  : whole              ? Isa::load_halves(from)
                  : lane >= valid      ? Isa::zero()
                  : words.widen        ? load_some<Isa>(reinterpret_cast<const bf16*>(from), elems)
                                       : load_some_halves<Isa>(from, elems * words.elem_bytes / 2);
  }
  Isa::transpose(block);
}

// Prefetches rows of `row_bytes` that are read side by side, a piece of each at a time: more of them than a CPU follows
// by itself.
template <int kRows>
class Ahead {
 public:
  Ahead(int64_t row_bytes, int64_t piece_bytes)
      : row_bytes_(row_bytes), pieces_(piece_bytes < kLine ? kLine / piece_bytes : 1), rows_(kRows / pieces_) {}

  // Prefetches memory some lines behind the piece at `corner`, `offset` bytes into the first row, or, behind the rows'
  // end, in the rows that follow these. Prefetches a share of the rows for each piece of a line.
  void ask(const char* corner, int64_t offset) {
    const char* row = corner + turn_ * rows_ * row_bytes_ + kAhead;
    if (offset + kAhead >= row_bytes_) row += (kRows - 1) * row_bytes_;
    for (int64_t i = 0; i < rows_; ++i, row += row_bytes_) __builtin_prefetch(row, 0, kSecondCache);
    turn_ = turn_ + 1 == pieces_ ? 0 : turn_ + 1;
  }

 private:
  // Measured: to the second cache, which may wait for more lines at a time than the first, and far ahead.
  static constexpr int64_t kLine = 64, kAhead = 16 * kLine;
  static constexpr int kSecondCache = 2;
  int64_t row_bytes_, pieces_, rows_, turn_ = 0;
};

// Loads kLanes rows of 2 * kLanes bf16: block[i] gets element i of each as f32. Moves the words before they are
// widened: a pair of elements at a time.
template <typename Isa>
[[gnu::always_inline]] inline void load_widened_pairs(const char* corner, const int64_t (&row_bytes)[Isa::kLanes],
                                                      typename Isa::Vector (&block)[2 * Isa::kLanes]) {
#pragma GCC unroll 4
  for (int word = 0; word < Isa::kLanes; word += 4) {
    typename Isa::Vector quad[4];
    Isa::load_quad_of([&](int row) { return corner + row_bytes[row] + 4 * word; }, quad);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      block[2 * (word + i)] = Isa::lower(quad[i]);
      block[2 * (word + i) + 1] = Isa::upper(quad[i]);
    }
  }
}

template <typename Isa>
constexpr bool kWidensPairs = requires(const char* (*row)(int), typename Isa::Vector (&quad)[4]) {
  Isa::load_quad_of(row, quad);
};

// Stores rows of a panel, `width` apart, in whole vectors but for the last one's lanes from `last_lanes` on.
template <typename Isa, int kRows>
[[gnu::always_inline]] inline void store_rows(const typename Isa::Vector (&rows)[kRows], int64_t last_lanes,
                                              int64_t width, float* out) {
#pragma GCC unroll 32
  for (int i = 0; i + 1 < kRows; ++i) Isa::store(out + i * width, rows[i]);
  if (last_lanes == Isa::kLanes) {
    Isa::store(out + (kRows - 1) * width, rows[kRows - 1]);
  } else {
    Isa::store(out + (kRows - 1) * width, rows[kRows - 1], last_lanes);
  }
}

// Packs sources whose vectors lie along memory rows: kLanes rows at a time are read along k and transposed in
// registers.
template <typename Isa>
void pack_along_k(const PanelSource& source, const PanelRange& range, float* panel) {
  constexpr int64_t kLanes = Isa::kLanes;
  const Words words(source);
  const int64_t elems = range.k_end - range.k_begin, units = (elems + words.unit_elems - 1) / words.unit_elems;
  const int64_t row_stride = source.stride * words.elem_bytes,
                block_bytes = kLanes * words.unit_elems * words.elem_bytes;
  for (int64_t lane0 = 0; lane0 < range.width; lane0 += kLanes) {
    const int64_t lanes = at_most(range.width - lane0, kLanes), valid = at_most(range.count - lane0, lanes);
    const char* base = static_cast<const char*>(source.data) +
                       ((range.first + lane0) * source.stride + range.k_begin) * words.elem_bytes;
    // Lanes beyond the panel's width repeat a row; they are never read.
    int64_t row_bytes[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      row_bytes[lane] = (valid > 0 ? at_most(lane, valid - 1) : 0) * row_stride;
    }
    // Whole vectors, of which those behind `lanes` fall into the next row, which is stored later.
    const bool whole = lanes == kLanes || (range.width == lanes && rows_may_overlap<Isa>(lanes));
    const bool in_pairs = kWidensPairs<Isa> && words.widen && whole && valid == lanes;
    Ahead<Isa::kLanes> ahead(row_stride, in_pairs ? 2 * block_bytes : block_bytes);
    int64_t unit0 = 0;
    if constexpr (kWidensPairs<Isa>) {
      for (; in_pairs && unit0 + 2 * kLanes <= units; unit0 += 2 * kLanes) {
        const char* corner = base + unit0 * words.elem_bytes;
        ahead.ask(corner, (range.k_begin + unit0) * words.elem_bytes);
        typename Isa::Vector block[2 * kLanes];
        load_widened_pairs<Isa>(corner, row_bytes, block);
        const int64_t last = unit0 + 2 * kLanes == units ? lanes : kLanes;
        store_rows<Isa>(block, last, range.width, panel + unit0 * range.width + lane0);
      }
    }
    for (; unit0 < units; unit0 += kLanes) {
      const int64_t steps = at_most(units - unit0, kLanes),
                    here = at_most(elems - unit0 * words.unit_elems, steps * words.unit_elems);
      const char* corner = base + unit0 * words.unit_elems * words.elem_bytes;
      ahead.ask(corner, (range.k_begin + unit0 * words.unit_elems) * words.elem_bytes);
      typename Isa::Vector block[kLanes];
      if (valid == kLanes && here == kLanes * words.unit_elems && !words.widen) {
        load_transposed<Isa>(corner, row_stride, block);
      } else {
        load_block<Isa>(corner, row_bytes, valid == lanes ? kLanes : valid, here, words, block);
      }
      float* out = panel + unit0 * range.width + lane0;
      if (steps == kLanes && whole) {
        store_rows<Isa>(block, unit0 + steps == units ? lanes : kLanes, range.width, out);
      } else {
        for (int64_t step = 0; step < steps; ++step) Isa::store(out + step * range.width, block[step], lanes);
      }
    }
  }
}

template <typename Isa, typename T>
void store_some(T* to, typename Isa::Vector value, int64_t count) {
  if (count >= Isa::kLanes) {
    Isa::store(to, value);
  } else {
    Isa::store(to, value, count);
  }
}

template <typename Isa, typename T>
void store_two(T* to, typename Isa::Vector first, typename Isa::Vector second) {
  if constexpr (requires { Isa::store_two(to, first, second); }) {
    Isa::store_two(to, first, second);
  } else {
    Isa::store(to, first);
    Isa::store(to + Isa::kLanes, second);
  }
}

// The rows from which pack_across_k makes a panel's row: a row of f32, a row of bf16, or two rows of bf16 as pairs.
template <typename Isa>
struct CopyRow {
  using Elem = float;
  static constexpr int64_t kRows = 1;
  static constexpr bool kTwoVectors = false;  // whether store_pairs() makes two vectors at a time
  static typename Isa::Vector load(const PanelSource& source, int64_t elem, int64_t count, bool) {
    return load_some<Isa>(static_cast<const float*>(source.data) + elem, count);
  }
};
template <typename Isa>
struct WidenRow {
  using Elem = bf16;
  static constexpr int64_t kRows = 1;
  static constexpr bool kTwoVectors = false;
  static typename Isa::Vector load(const PanelSource& source, int64_t elem, int64_t count, bool) {
    return load_some<Isa>(static_cast<const bf16*>(source.data) + elem, count);
  }
};
template <typename Isa>
struct PairRows {
  using Elem = bf16;
  static constexpr int64_t kRows = 2;
  static constexpr bool kTwoVectors = requires(const bf16* row, float* out) { Isa::store_pairs(row, row, out); };
  static typename Isa::Vector load(const PanelSource& source, int64_t elem, int64_t count, bool last) {
    if (count <= 0) return Isa::zero();
    const bf16* row = static_cast<const bf16*>(source.data) + elem;
    return Isa::pair_up(row, last ? nullptr : row + source.stride, at_most(count, Isa::kLanes));
  }
};

// Packs sources whose memory rows are steps of k. They lie too far apart for the CPU to see a pattern, so later rows
// are prefetched (by 16: a fifth to a half faster for large matrices).
template <typename Isa, typename Row>
void pack_across_k(const PanelSource& source, const PanelRange& range, float* panel) {
  constexpr int64_t kAhead = 16, kLineElems = 64 / sizeof(typename Row::Elem);
  // Reading beyond `count`, too, stays within the matrix in all rows but the last.
  const bool whole_vectors = rows_may_overlap<Isa>(range.width) && source.stride >= Isa::kLanes;
  for (int64_t k = range.k_begin; k < range.k_end; k += Row::kRows) {
    const int64_t corner = k * source.stride + range.first;
    const bool last = k + 1 == range.k_end;
    for (int64_t row = kAhead; row < kAhead + Row::kRows; ++row) {
      const auto* from = static_cast<const typename Row::Elem*>(source.data) + corner + row * source.stride;
      for (int64_t elem = 0; elem < range.width; elem += kLineElems) __builtin_prefetch(from + elem);
    }
    if constexpr (Row::kTwoVectors) {
      if (range.count >= 2 * Isa::kLanes && range.width == 2 * Isa::kLanes && !last) {
        const auto* row = static_cast<const typename Row::Elem*>(source.data) + corner;
        Isa::store_pairs(row, row + source.stride, panel);
        panel += range.width;
        continue;
      }
    }
    if (whole_vectors && k + Row::kRows < range.k_end) {
      for (int64_t lane = 0; lane < range.width; lane += Isa::kLanes) {
        const typename Isa::Vector row = Row::load(source, corner + lane, Isa::kLanes, false);
        const int64_t count = range.count - lane;
        Isa::store(panel + lane, count >= Isa::kLanes ? row : Isa::keep(row, count > 0 ? count : 0));
      }
      panel += range.width;
      continue;
    }
    for (int64_t lane = 0; lane < range.width; lane += Isa::kLanes) {
      store_some<Isa>(panel + lane, Row::load(source, corner + lane, range.count - lane, last), range.width - lane);
    }
    panel += range.width;
  }
}

template <typename Isa>
void pack_panel(const PanelSource& source, const PanelRange& range, float* panel) {
  if (source.k_contiguous) {
    pack_along_k<Isa>(source, range, panel);
  } else if (source.dtype == DType::kF32) {
    pack_across_k<Isa, CopyRow<Isa>>(source, range, panel);
  } else if (source.format == PanelFormat::kF32) {
    pack_across_k<Isa, WidenRow<Isa>>(source, range, panel);
  } else {
    pack_across_k<Isa, PairRows<Isa>>(source, range, panel);
  }
}

// Packs left panels of pairs in blocks of kLanes units: [units / kLanes][width][kLanes], zeros behind k. Rows beyond
// `count` are not written; they are never read.
template <typename Isa>
void pack_row_blocks(const PanelSource& source, const PanelRange& range, float* panel) {
  constexpr int64_t kLanes = Isa::kLanes;
  for (int64_t k = range.k_begin; k < range.k_end; k += 2 * kLanes, panel += range.width * kLanes) {
    const int64_t elems = at_most(range.k_end - k, 2 * kLanes);
    if (source.k_contiguous) {
      const auto* row = static_cast<const bf16*>(source.data) + range.first * source.stride + k;
      for (int64_t i = 0; i < range.count; ++i, row += source.stride) {
        Isa::store(panel + i * kLanes, load_some_halves<Isa>(reinterpret_cast<const char*>(row), elems));
      }
      continue;
    }
    for (int64_t first = 0; first < range.count; first += kLanes) {
      const int64_t rows = at_most(range.count - first, kLanes);
      const auto* corner = static_cast<const bf16*>(source.data) + k * source.stride + range.first + first;
      typename Isa::Vector block[kLanes];
#pragma GCC unroll 16
      for (int64_t unit = 0; unit < kLanes; ++unit) {
        const bf16* even = corner + 2 * unit * source.stride;
        const bool is_pair = 2 * unit + 1 < elems;
        block[unit] =
            2 * unit < elems ? Isa::pair_up(even, is_pair ? even + source.stride : nullptr, rows) : Isa::zero();
      }
      Isa::transpose(block);
      for (int64_t i = 0; i < rows; ++i) Isa::store(panel + (first + i) * kLanes, block[i]);
    }
  }
}

// The addend of finish_rows to a tile's rows: elements of type Elem, or nothing (void).
template <typename Isa, typename Elem>
struct Added {
  const Elem* elems;

  Added(const void* data, int64_t first) : elems(static_cast<const Elem*>(data) + first) {}
  typename Isa::Vector to(typename Isa::Vector value, int64_t column, int64_t count) const {
    return Isa::add(value, load_some<Isa>(elems + column, count));
  }
  void next_row(int64_t stride) { elems += stride; }
};
template <typename Isa>
struct Added<Isa, void> {
  Added(const void*, int64_t) {}
  typename Isa::Vector to(typename Isa::Vector value, int64_t, int64_t) const { return value; }
  void next_row(int64_t) {}
};

// Writes rows of C, which holds elements of type Out.
template <typename Isa, typename Out, typename Addend, typename Bias>
void finish_rows(const float* tile, int64_t tile_stride, const TileTarget& target, const TileRange& range) {
  constexpr int64_t kLanes = Isa::kLanes;
  const typename Isa::Vector alpha = Isa::broadcast(&target.alpha);
  Out* out = static_cast<Out*>(target.c) + range.row * target.c_stride + range.column;
  Added<Isa, Addend> addend(target.addend, range.row * target.addend_stride + range.column);
  const Added<Isa, Bias> bias(target.bias, range.column);
  const auto value = [&](int64_t column, int64_t count) {
    const typename Isa::Vector product = Isa::multiply(alpha, load_some<Isa>(tile + column, count));
    return addend.to(bias.to(product, column, count), column, count);
  };
  for (int64_t row = 0; row < range.rows; ++row) {
    int64_t column = 0;
    for (; column + 2 * kLanes <= range.columns; column += 2 * kLanes) {
      store_two<Isa>(out + column, value(column, kLanes), value(column + kLanes, kLanes));
    }
    for (; column < range.columns; column += kLanes) {
      const int64_t count = range.columns - column;
      store_some<Isa>(out + column, value(column, count), count);
    }
    tile += tile_stride;
    out += target.c_stride;
    addend.next_row(target.addend_stride);
  }
}

template <typename Isa, typename Out, typename Addend>
void finish_rows(const float* tile, int64_t tile_stride, const TileTarget& target, const TileRange& range) {
  const auto finish = target.bias == nullptr             ? finish_rows<Isa, Out, Addend, void>
                      : target.bias_dtype == DType::kF32 ? finish_rows<Isa, Out, Addend, float>
                                                         : finish_rows<Isa, Out, Addend, bf16>;
  finish(tile, tile_stride, target, range);
}

template <typename Isa, typename Out>
void finish_rows(const float* tile, int64_t tile_stride, const TileTarget& target, const TileRange& range) {
  const auto finish = target.addend == nullptr             ? finish_rows<Isa, Out, void>
                      : target.addend_dtype == DType::kF32 ? finish_rows<Isa, Out, float>
                                                           : finish_rows<Isa, Out, bf16>;
  finish(tile, tile_stride, target, range);
}

template <typename Isa>
void finish_tile(const float* tile, int64_t tile_stride, const TileTarget& target, const TileRange& range) {
  auto finish = target.c_dtype == DType::kF32 ? finish_rows<Isa, float> : finish_rows<Isa, bf16>;
  if constexpr (requires { typename Isa::PastCaches; }) {
    using PastCaches = typename Isa::PastCaches;
    if (target.past_caches)
      finish = target.c_dtype == DType::kF32 ? finish_rows<PastCaches, float> : finish_rows<PastCaches, bf16>;
  }
  finish(tile, tile_stride, target, range);
}

}  // namespace
}  // namespace spillway::cpu
