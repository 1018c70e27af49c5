// AVX512-BF16: the tiles of avx512.cc for pairs of bf16, two products a word and step.
#include "ops/matmul/cpu/kernels.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own intrinsics (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "backend/cpu/target.h"

SPILLWAY_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")
#include "ops/matmul/cpu/few_rows.h"
#include "ops/matmul/cpu/tile.h"
#include "ops/matmul/cpu/vectors_avx512.h"

namespace spillway::cpu {
namespace {

struct Avx512Bf16 : Avx512 {
  static Vector broadcast(const void* pair) {
    float bits;  // a pair of a matrix that is read in place may start at any even address
    std::memcpy(&bits, pair, sizeof(bits));
    return _mm512_set1_ps(bits);
  }
  static Vector multiply_add(Vector a, Vector b, Vector c) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
  }
};

constexpr std::array<uint16_t, 32> make_halves_in_turn() {
  std::array<uint16_t, 32> halves{};
  for (size_t i = 0; i < 32; ++i) halves[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
  return halves;
}
alignas(64) constexpr std::array<uint16_t, 32> kHalvesInTurn = make_halves_in_turn();

// Returns pairs of two vectors, rounded to bf16. The instruction flushes denormal numbers, as products of pairs do.
__m512 pairs_of(__m512 first, __m512 second) {
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(second, first);
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_load_si512(kHalvesInTurn.data()), halves));
}

// Like FourBits and EightBits, for a product of pairs.
class FourBitPairs : public RowScales<Avx512Bf16> {
 public:
  static constexpr int kElems = 8, kUnits = 4;

  explicit FourBitPairs(const CodedPanel& panel) : RowScales(panel), table_(panel.table) {}
  __m512 unit(__m512 word, int u) const {
    return pairs_of(scaled(table_.look_up(word, first_bit(u))), scaled(table_.look_up(word, second_bit(u))));
  }

 private:
  Avx512::Table table_;
};

class EightBitPairs : public RowScales<Avx512Bf16> {
 public:
  static constexpr int kElems = 4, kUnits = 2;

  explicit EightBitPairs(const CodedPanel& panel) : RowScales(panel) {}
  __m512 unit(__m512 word, int u) const {
    return pairs_of(scaled(Avx512::byte_of(word, 2 * u)), scaled(Avx512::byte_of(word, 2 * u + 1)));
  }
};

using Rows = std::make_integer_sequence<int, 14>;
constexpr auto kPairTiles = streamed_tiles<Avx512Bf16, WholeWords<Avx512Bf16, 2>, 1>(Rows());
constexpr auto kFourBits = coded_tiles<Avx512Bf16, FourBitPairs>(Rows());
constexpr auto kEightBits = coded_tiles<Avx512Bf16, EightBitPairs>(Rows());

}  // namespace

extern const std::array<MatmulKernels::Tile, 14> kAvx512Bf16Tiles, kAvx512Bf16NarrowTiles;
const std::array<MatmulKernels::Tile, 14> kAvx512Bf16Tiles = multiply_tiles<Avx512Bf16, 2>(Rows());
const std::array<MatmulKernels::Tile, 14> kAvx512Bf16NarrowTiles = multiply_tiles<Avx512Bf16, 1>(Rows());

extern const MatmulKernels::Streamed kAvx512Bf16Streamed;
const MatmulKernels::Streamed kAvx512Bf16Streamed = {.max_rows = 28,
                                                     .element_columns = 16,
                                                     .code_columns = 16,
                                                     .elements = kPairTiles.data(),
                                                     .four_bits = kFourBits.data(),
                                                     .eight_bits = kEightBits.data(),
                                                     .four_bits_to_bf16 = kFourBits.data(),
                                                     .eight_bits_to_bf16 = kEightBits.data()};

}  // namespace spillway::cpu
SPILLWAY_TARGET_END
#endif
