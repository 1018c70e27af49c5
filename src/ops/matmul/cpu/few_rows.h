// Products of few rows: the right operand is multiplied as it is read, or decoded, and never packed, so that the cost
// is that of reading it. Sums are chains over k like those of multiply_tile(), and have its bits.
//
// Included after tile.h by the files of the instruction sets. In addition to the requirements of tile.h, Isa must give:
// load_quad; lower and upper (a bf16 of each word as f32); Table, made of 16 f32, whose look_up(words, bit) gives the
// values of the 4-bit codes that begin at a bit of each word; byte_of(words, i) (a signed integer as f32); and
// round_number (f32 that is no NaN to bf16, as f32).
#pragma once

#include <array>
#include <utility>

#include "ops/matmul/cpu/tile.h"

namespace spillway::cpu {
namespace {

// The sums of kRows rows and kVectors times kLanes columns, and the position of the left operand's rows.
template <typename Isa, int kRows, int kVectors>
class RowSums {
 public:
  using Vector = typename Isa::Vector;

  explicit RowSums(const TileLeft& left) : row_bytes_(left.row_bytes), unit_bytes_(left.block_bytes) {
#pragma GCC unroll 5
    for (int i = 0; i < kPointers; ++i) words_[i] = static_cast<const char*>(left.data) + 3 * i * row_bytes_;
#pragma GCC unroll 14
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums_[row][v] = Isa::zero();
    }
  }

  // Multiplies the next unit of k of the right operand.
  void multiply_add(const Vector (&unit)[kVectors]) {
#pragma GCC unroll 14
    for (int row = 0; row < kRows; ++row) {
      const Vector left = Isa::broadcast(words_[row / 3] + row % 3 * row_bytes_);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums_[row][v] = Isa::multiply_add(left, unit[v], sums_[row][v]);
    }
#pragma GCC unroll 5
    for (int i = 0; i < kPointers; ++i) words_[i] += unit_bytes_;
  }

  void store(float* tile, int64_t tile_stride, bool accumulate) const {
#pragma GCC unroll 14
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        float* out = tile + row * tile_stride + v * Isa::kLanes;
        Isa::store(out, accumulate ? Isa::add(Isa::load(out), sums_[row][v]) : sums_[row][v]);
      }
    }
  }

 private:
  static constexpr int kPointers = (kRows + 2) / 3;

  int64_t row_bytes_, unit_bytes_;
  const char* words_[kPointers];
  Vector sums_[kRows][kVectors];
};

// The following classes describe the words of a right operand's rows: kElems elements each, in kUnits units of k.
// start(k) comes before the words from element k on; unit(word, u) returns unit u of a word.

// Elements, or pairs of them, as they are in memory.
template <typename Isa, int kUnitElems>
struct WholeWords {
  static constexpr int kElems = kUnitElems, kElemBytes = 4 / kUnitElems, kUnits = 1;
  static void start(int64_t) {}
  static typename Isa::Vector unit(typename Isa::Vector word, int) { return word; }
};

template <typename Isa>
struct WidenedPairs {
  static constexpr int kElems = 2, kElemBytes = 2, kUnits = 2;
  static void start(int64_t) {}
  static typename Isa::Vector unit(typename Isa::Vector word, int u) {
    return u == 0 ? Isa::lower(word) : Isa::upper(word);
  }
};

// The scales of rows of codes.
template <typename Isa>
class RowScales {
 public:
  explicit RowScales(const CodedPanel& panel) : scales_(panel.scales), elems_(panel.scale_elems) {}
  void start(int64_t k) { scale_ = Isa::load(scales_ + k / elems_ * Isa::kLanes); }
  typename Isa::Vector scaled(typename Isa::Vector value) const { return Isa::multiply(value, scale_); }

 private:
  const float* scales_;
  int64_t elems_;
  typename Isa::Vector scale_ = Isa::zero();
};

// Return the bit of a word at which the first, or second, of two codes in a byte begins.
constexpr int first_bit(int byte) { return 8 * byte + 4; }
constexpr int second_bit(int byte) { return 8 * byte; }

template <typename Isa, bool kToBf16>
typename Isa::Vector round_if(typename Isa::Vector value) {
  if constexpr (kToBf16) return Isa::round_number(value);
  return value;
}

template <typename Isa, bool kToBf16>
class FourBits : public RowScales<Isa> {
 public:
  static constexpr int kElems = 8, kUnits = 8;

  explicit FourBits(const CodedPanel& panel) : RowScales<Isa>(panel), table_(panel.table) {}
  typename Isa::Vector unit(typename Isa::Vector word, int u) const {
    const int bit = u % 2 == 0 ? first_bit(u / 2) : second_bit(u / 2);
    return round_if<Isa, kToBf16>(this->scaled(table_.look_up(word, bit)));
  }

 private:
  typename Isa::Table table_;
};

template <typename Isa, bool kToBf16>
class EightBits : public RowScales<Isa> {
 public:
  static constexpr int kElems = 4, kUnits = 4;

  explicit EightBits(const CodedPanel& panel) : RowScales<Isa>(panel) {}
  typename Isa::Vector unit(typename Isa::Vector word, int u) const {
    return round_if<Isa, kToBf16>(this->scaled(Isa::byte_of(word, u)));
  }
};

// Adds elements [k, k_end), whole quads of words, of the rows that begin at `corner`.
template <typename Isa, typename Row, int kRows, int kVectors>
void add_quads(Row row, const char* corner, int64_t row_bytes, int64_t k, int64_t k_end,
               RowSums<Isa, kRows, kVectors>& sums) {
  using Vector = typename Isa::Vector;
  constexpr int64_t kQuadBytes = 16, kQuadElems = 4 * Row::kElems;
  Ahead<kVectors * Isa::kLanes> ahead(row_bytes, kQuadBytes);
  corner += k / kQuadElems * kQuadBytes;
  for (; k < k_end; k += kQuadElems, corner += kQuadBytes) {
    ahead.ask(corner, k / kQuadElems * kQuadBytes);
    Vector quads[kVectors][4];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) Isa::load_quad(corner + v * Isa::kLanes * row_bytes, row_bytes, quads[v]);
    row.start(k);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 8
      for (int u = 0; u < Row::kUnits; ++u) {
        Vector unit[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) unit[v] = row.unit(quads[v][i], u);
        sums.multiply_add(unit);
      }
    }
  }
}

template <typename Isa, typename Row, int kVectors, int kRows>
void multiply_streamed(const TileLeft& left, const PanelSource& right, const PanelRange& range, float* tile,
                       int64_t tile_stride, bool accumulate) {
  using Vector = typename Isa::Vector;
  constexpr int64_t kLanes = Isa::kLanes, kQuadElems = 4 * Row::kElems;
  const int64_t row_bytes = right.stride * Row::kElemBytes, rest = (range.k_end - range.k_begin) % kQuadElems;
  const char* const first = static_cast<const char*>(right.data) + range.first * row_bytes;
  RowSums<Isa, kRows, kVectors> sums(left);
  add_quads<Isa>(Row(), first, row_bytes, range.k_begin, range.k_end - rest, sums);
  const Words words(right);
  int64_t rows[kLanes];
  for (int64_t lane = 0; lane < kLanes; ++lane) rows[lane] = lane * row_bytes;
  for (int64_t k = range.k_end - rest; k < range.k_end; k += kLanes * words.unit_elems) {
    const int64_t elems = at_most(range.k_end - k, kLanes * words.unit_elems);
    Vector blocks[kVectors][kLanes];
    for (int v = 0; v < kVectors; ++v)
      load_block<Isa>(first + v * kLanes * row_bytes + k * Row::kElemBytes, rows, kLanes, elems, words, blocks[v]);
    for (int64_t u = 0; u * words.unit_elems < elems; ++u) {
      Vector unit[kVectors];
      for (int v = 0; v < kVectors; ++v) unit[v] = blocks[v][u];
      sums.multiply_add(unit);
    }
  }
  sums.store(tile, tile_stride, accumulate);
}

template <typename Isa, typename Row, int kRows>
void multiply_coded(const TileLeft& left, const CodedPanel& right, int64_t k_begin, int64_t k_end, float* tile,
                    int64_t tile_stride, bool accumulate) {
  RowSums<Isa, kRows, 1> sums(left);
  add_quads<Isa>(Row(right), right.codes, right.row_bytes, k_begin, k_end, sums);
  sums.store(tile, tile_stride, accumulate);
}

// Returns tiles of 1 row to as many as there are numbers.
template <typename Isa, typename Row, int kVectors, int... kRows>
constexpr std::array<MatmulKernels::StreamedTile, sizeof...(kRows)> streamed_tiles(
    std::integer_sequence<int, kRows...>) {
  return {multiply_streamed<Isa, Row, kVectors, kRows + 1>...};
}
template <typename Isa, typename Row, int... kRows>
constexpr std::array<MatmulKernels::CodedTile, sizeof...(kRows)> coded_tiles(std::integer_sequence<int, kRows...>) {
  return {multiply_coded<Isa, Row, kRows + 1>...};
}

// The tiles of f32, of up to kRows rows; those of elements are kVectors vectors wide, while the registers of codes
// leave room for one.
template <typename Isa, int kRows, int kVectors>
struct F32Elements {
  using Rows = std::make_integer_sequence<int, kRows>;
  static constexpr auto kWhole = streamed_tiles<Isa, WholeWords<Isa, 1>, kVectors>(Rows());
  static constexpr auto kWidened = streamed_tiles<Isa, WidenedPairs<Isa>, kVectors>(Rows());
};
template <typename Isa, int kRows>
struct F32Codes {
  using Rows = std::make_integer_sequence<int, kRows>;
  static constexpr auto kFourBits = coded_tiles<Isa, FourBits<Isa, false>>(Rows());
  static constexpr auto kFourBitsToBf16 = coded_tiles<Isa, FourBits<Isa, true>>(Rows());
  static constexpr auto kEightBits = coded_tiles<Isa, EightBits<Isa, false>>(Rows());
  static constexpr auto kEightBitsToBf16 = coded_tiles<Isa, EightBits<Isa, true>>(Rows());
};

// Return the tiles without codes, and with them.
template <typename Isa, int kRows, int kVectors>
constexpr MatmulKernels::Streamed streamed_elements(int64_t max_rows, int64_t max_widened_rows) {
  using Tiles = F32Elements<Isa, kRows, kVectors>;
  return {.max_rows = max_rows,
          .max_widened_rows = max_widened_rows,
          .element_columns = kVectors * Isa::kLanes,
          .code_columns = Isa::kLanes,
          .elements = Tiles::kWhole.data(),
          .widened = Tiles::kWidened.data()};
}
template <typename Isa, int kRows, int kVectors>
constexpr MatmulKernels::Streamed streamed_f32(int64_t max_rows, int64_t max_widened_rows) {
  using Tiles = F32Codes<Isa, kRows>;
  MatmulKernels::Streamed result = streamed_elements<Isa, kRows, kVectors>(max_rows, max_widened_rows);
  result.four_bits = Tiles::kFourBits.data();
  result.four_bits_to_bf16 = Tiles::kFourBitsToBf16.data();
  result.eight_bits = Tiles::kEightBits.data();
  result.eight_bits_to_bf16 = Tiles::kEightBitsToBf16.data();
  return result;
}

}  // namespace
}  // namespace spillway::cpu
