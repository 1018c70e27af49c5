// AVX2 with FMA: 6 x 16 tiles in 12 of the 16 registers.
#include "ops/matmul/cpu/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

#include "backend/cpu/target.h"

SPILLWAY_TARGET_BEGIN("avx2,fma")
#include "ops/matmul/cpu/few_rows.h"
#include "ops/matmul/cpu/tile.h"

namespace spillway::cpu {
namespace {

struct Avx2 {
  using Vector = __m256;
  static constexpr int kLanes = 8;

  static __m256i first_words(int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }

  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector broadcast(const void* value) { return _mm256_broadcast_ss(static_cast<const float*>(value)); }
  static Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }

  static Vector load(const float* from) { return _mm256_loadu_ps(from); }
  static Vector load(const float* from, int64_t count) { return _mm256_maskload_ps(from, first_words(count)); }
  static void store(float* to, Vector value) { _mm256_storeu_ps(to, value); }
  static void store(float* to, Vector value, int64_t count) { _mm256_maskstore_ps(to, first_words(count), value); }

  static Vector keep(Vector value, int64_t count) {
    return _mm256_and_ps(value, _mm256_castsi256_ps(first_words(count)));
  }

  static Vector load_halves(const void* from) {
    return _mm256_castsi256_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
  }
  static Vector load_halves(const void* from, int64_t halves) {
    alignas(32) uint16_t copy[16] = {};
    std::memcpy(copy, from, static_cast<size_t>(halves) * sizeof(uint16_t));
    return load_halves(copy);
  }

  static Vector load(const bf16* from) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static Vector load(const bf16* from, int64_t count) {
    bf16 copy[8] = {};
    std::memcpy(copy, from, static_cast<size_t>(count) * sizeof(bf16));
    return load(copy);
  }

  // Rounds as to_bf16() does.
  static void store(bf16* to, Vector value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i words = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
    const __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
  }
  static void store(bf16* to, Vector value, int64_t count) {
    bf16 copy[8];
    store(copy, value);
    std::memcpy(to, copy, static_cast<size_t>(count) * sizeof(bf16));
  }

  // Stores two vectors with one packing, and looks for NaN in both at once.
  static void store_two(bf16* to, Vector first, Vector second) {
    if (_mm256_movemask_ps(_mm256_cmp_ps(first, second, _CMP_UNORD_Q)) != 0) {
      store(to, first);
      store(to + kLanes, second);
      return;
    }
    const __m256i words = _mm256_packus_epi32(rounded_halves(first), rounded_halves(second));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(words, 0xD8));
  }
  static void store_two(float* to, Vector first, Vector second) {
    store(to, first);
    store(to + kLanes, second);
  }
  // Returns numbers, none of them NaN, rounded to bf16, in the lower halves of words.
  static __m256i rounded_halves(Vector value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd), 16);
  }

  static Vector pair_up(const bf16*, const bf16*, int64_t) { return zero(); }  // never called: no dot product of pairs

  // Loads four words of 8 rows: quad[i] gets word i of each. Rows 4 * l + i make the lanes l of a vector as they are
  // loaded, so that it only remains to transpose 4 x 4 words within lanes.
  [[gnu::always_inline]] static void load_quad(const char* corner, int64_t row_bytes, Vector (&quad)[4]) {
    load_quad_of([=](int row) { return corner + row * row_bytes; }, quad);
  }
  // Does the same with rows of any distance; row(i) returns the address of row i's words.
  template <typename Row>
  [[gnu::always_inline]] static void load_quad_of(const Row& row, Vector (&quad)[4]) {
    Vector rows[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto lane = [&](int l) { return _mm_loadu_ps(reinterpret_cast<const float*>(row(4 * l + i))); };
      rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(lane(0)), lane(1), 1);
    }
    const auto& [a, b, c, d] = rows;
    const __m256d ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)),
                  ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b)),
                  cd_low = _mm256_castps_pd(_mm256_unpacklo_ps(c, d)),
                  cd_high = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
    quad[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, cd_low));
    quad[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, cd_low));
    quad[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, cd_high));
    quad[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, cd_high));
  }

  static Vector lower(Vector words) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(words), 16)); }
  static Vector upper(Vector words) {
    return _mm256_and_ps(words, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xFFFF0000))));
  }

  class Table {
   public:
    explicit Table(const float* values) : first_(load(values)), last_(load(values + 8)) {}
    // Looks up codes. A register holds half of the values; the fourth bit of a code tells which.
    Vector look_up(Vector words, int bit) const {
      const __m256i bits = _mm256_castps_si256(words);
      const __m256i index = _mm256_srl_epi32(bits, _mm_cvtsi32_si128(bit));
      const Vector fourth = _mm256_castsi256_ps(_mm256_sll_epi32(bits, _mm_cvtsi32_si128(28 - bit)));
      return _mm256_blendv_ps(_mm256_permutevar8x32_ps(first_, index), _mm256_permutevar8x32_ps(last_, index), fourth);
    }

   private:
    Vector first_, last_;
  };
  static Vector byte_of(Vector words, int i) {
    const __m256i upper = _mm256_sll_epi32(_mm256_castps_si256(words), _mm_cvtsi32_si128(24 - 8 * i));
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(upper, 24));
  }
  static Vector round_number(Vector value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return upper(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd)));
  }

  // Transposes 8 x 8 words: words within pairs of rows, then pairs of words, then 128-bit lanes.
  static void transpose(Vector (&rows)[8]) {
    Vector t[8], u[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const __m256d low = _mm256_castps_pd(t[4 * i + j]), high = _mm256_castps_pd(t[4 * i + 2 + j]);
        u[4 * i + 2 * j] = _mm256_castpd_ps(_mm256_unpacklo_pd(low, high));
        u[4 * i + 2 * j + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(low, high));
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      rows[i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x20);
      rows[4 + i] = _mm256_permute2f128_ps(u[i], u[4 + i], 0x31);
    }
  }
};

using Rows = std::make_integer_sequence<int, 6>;
constexpr auto kTiles = multiply_tiles<Avx2, 2>(Rows()), kNarrowTiles = multiply_tiles<Avx2, 1>(Rows());
// Uses two vectors a row: one would leave a chain of multiply-adds alone with its latency.
constexpr MatmulKernels::Streamed kF32Streamed = streamed_f32<Avx2, 6, 2>(18, 12);
constexpr MatmulKernels::Tiles kF32Tiles = {.rows = 6,
                                            .columns = 16,
                                            .wide = kTiles.data(),
                                            .narrow = kNarrowTiles.data(),
                                            .pack_left = pack_panel<Avx2>,
                                            .streamed = &kF32Streamed};

}  // namespace

extern const MatmulKernels kAvx2Kernels;
const MatmulKernels kAvx2Kernels = {"avx2", kF32Tiles, {}, pack_panel<Avx2>, finish_tile<Avx2>};

}  // namespace spillway::cpu
SPILLWAY_TARGET_END
#endif
