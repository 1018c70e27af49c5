// Vectors of AVX-512 (F, BW, DQ, VL) for tile.h. Included by the files of the sets that have it, inside their target
// pragma.
#pragma once

#include <immintrin.h>

#include <array>

#include "ops/matmul/cpu/kernels.h"

namespace spillway::cpu {
namespace {

// Indices of half words of two vectors, 0 to 31 of the first and 32 to 63 of the second: the upper halves of all words;
// and pairs of one of each, those of the lower and those of the upper half.
constexpr std::array<uint16_t, 64> make_pairs() {
  std::array<uint16_t, 64> pairs{};
  for (size_t i = 0; i < 64; ++i) pairs[i] = static_cast<uint16_t>(i / 2 + i % 2 * 32);
  return pairs;
}
constexpr std::array<uint16_t, 32> make_upper_halves() {
  std::array<uint16_t, 32> halves{};
  for (size_t i = 0; i < 32; ++i) halves[i] = static_cast<uint16_t>(2 * i + 1);
  return halves;
}
alignas(64) inline constexpr std::array<uint16_t, 32> kUpperHalves = make_upper_halves();
alignas(64) inline constexpr std::array<uint16_t, 64> kPairs = make_pairs();

struct Avx512 {
  using Vector = __m512;
  static constexpr int kLanes = 16;

  static __mmask16 first_words(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }

  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector broadcast(const void* value) { return _mm512_set1_ps(*static_cast<const float*>(value)); }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }

  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static Vector load(const float* from, int64_t count) { return _mm512_maskz_loadu_ps(first_words(count), from); }
  static void store(float* to, Vector value) { _mm512_storeu_ps(to, value); }
  static void store(float* to, Vector value, int64_t count) { _mm512_mask_storeu_ps(to, first_words(count), value); }

  static Vector keep(Vector value, int64_t count) { return _mm512_maskz_mov_ps(first_words(count), value); }

  static Vector load_halves(const void* from) { return _mm512_castsi512_ps(_mm512_loadu_si512(from)); }
  static Vector load_halves(const void* from, int64_t halves) {
    const __mmask32 mask = static_cast<__mmask32>((uint64_t{1} << halves) - 1);
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(mask, from));
  }

  static Vector widen(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  static Vector load(const bf16* from) { return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))); }
  static Vector load(const bf16* from, int64_t count) {
    return widen(_mm256_maskz_loadu_epi16(first_words(count), from));
  }

  // Returns words whose upper halves are those of to_bf16(): in integers, since the instruction of AVX512-BF16 flushes
  // denormal numbers.
  static __m512i rounded(Vector value) {
    const __m512i bits = _mm512_castps_si512(value);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const __m512i half = _mm512_mask_blend_epi32(odd, _mm512_set1_epi32(0x7FFF), _mm512_set1_epi32(0x8000));
    const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(_mm512_add_epi32(bits, half), nan, bits, _mm512_set1_epi32(0x400000));
  }
  static __m256i round(Vector value) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded(value), 16)); }
  static void store(bf16* to, Vector value) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), round(value)); }
  static void store(bf16* to, Vector value, int64_t count) {
    _mm256_mask_storeu_epi16(to, first_words(count), round(value));
  }

  static void store_two(float* to, Vector first, Vector second) {
    store(to, first);
    store(to + kLanes, second);
  }
  static void store_two(bf16* to, Vector first, Vector second) {
    const __m512i upper_halves = _mm512_load_si512(kUpperHalves.data());
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(rounded(first), upper_halves, rounded(second)));
  }

  static Vector pair_up(const bf16* even, const bf16* odd, int64_t count) {
    const __mmask16 mask = first_words(count);
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, even));
    if (odd == nullptr) return _mm512_castsi512_ps(low);
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, odd));
    return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }

  // Stores two vectors of pairs, of 2 * kLanes elements of two rows.
  static void store_pairs(const bf16* even, const bf16* odd, float* to) {
    const __m512i low = _mm512_loadu_si512(even), high = _mm512_loadu_si512(odd);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(low, _mm512_load_si512(kPairs.data()), high));
    _mm512_storeu_si512(to + kLanes, _mm512_permutex2var_epi16(low, _mm512_load_si512(kPairs.data() + 32), high));
  }

  // Loads four words of 16 rows: quad[i] gets word i of each. Rows 4 * l + i make the lanes l of a vector as they are
  // loaded, so that it only remains to transpose 4 x 4 words within lanes.
  [[gnu::always_inline]] static void load_quad(const char* corner, int64_t row_bytes, Vector (&quad)[4]) {
    Vector rows[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const auto lane = [&](int l) {
        return _mm_loadu_ps(reinterpret_cast<const float*>(corner + (4 * l + i) * row_bytes));
      };
      Vector words = _mm512_castps128_ps512(lane(0));
      words = _mm512_insertf32x4(words, lane(1), 1);
      words = _mm512_insertf32x4(words, lane(2), 2);
      rows[i] = _mm512_insertf32x4(words, lane(3), 3);
    }
    const auto& [a, b, c, d] = rows;
    const __m512d ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)),
                  ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b)),
                  cd_low = _mm512_castps_pd(_mm512_unpacklo_ps(c, d)),
                  cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
    quad[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, cd_low));
    quad[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, cd_low));
    quad[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high));
    quad[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high));
  }

  static Vector lower(Vector words) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(words), 16)); }
  static Vector upper(Vector words) {
    const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(words), mask));
  }

  class Table {
   public:
    explicit Table(const float* values) : values_(load(values)) {}
    Vector look_up(Vector words, int bit) const {  // four bits of each index count
      const __m512i index = _mm512_srl_epi32(_mm512_castps_si512(words), _mm_cvtsi32_si128(bit));
      return _mm512_permutexvar_ps(index, values_);
    }

   private:
    Vector values_;
  };
  static Vector byte_of(Vector words, int i) {
    const __m512i upper = _mm512_sll_epi32(_mm512_castps_si512(words), _mm_cvtsi32_si128(24 - 8 * i));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(upper, 24));
  }
  static Vector round_number(Vector value) {
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return upper(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd)));
  }

  // Transposes 16 x 16 words: words within pairs of rows, then pairs of words, then 128-bit lanes twice.
  static void transpose(Vector (&rows)[16]) {
    Vector t[16], u[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      t[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
      t[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const __m512d low = _mm512_castps_pd(t[4 * i + j]), high = _mm512_castps_pd(t[4 * i + 2 + j]);
        u[4 * i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
        u[4 * i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Vector a = _mm512_shuffle_f32x4(u[i], u[4 + i], 0x88), b = _mm512_shuffle_f32x4(u[i], u[4 + i], 0xDD);
      const Vector c = _mm512_shuffle_f32x4(u[8 + i], u[12 + i], 0x88),
                   d = _mm512_shuffle_f32x4(u[8 + i], u[12 + i], 0xDD);
      rows[i] = _mm512_shuffle_f32x4(a, c, 0x88);
      rows[4 + i] = _mm512_shuffle_f32x4(b, d, 0x88);
      rows[8 + i] = _mm512_shuffle_f32x4(a, c, 0xDD);
      rows[12 + i] = _mm512_shuffle_f32x4(b, d, 0xDD);
    }
  }
};

// Writes whole lines past the caches. Their addresses must be multiples of 64.
struct Avx512PastCaches : Avx512 {
  static void store_two(float* to, Vector first, Vector second) {
    _mm512_stream_ps(to, first);
    _mm512_stream_ps(to + kLanes, second);
  }
  static void store_two(bf16* to, Vector first, Vector second) {
    const __m512i upper_halves = _mm512_load_si512(kUpperHalves.data());
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to),
                        _mm512_permutex2var_epi16(rounded(first), upper_halves, rounded(second)));
  }
};
struct Avx512WithPastCaches : Avx512 {
  using PastCaches = Avx512PastCaches;
};

}  // namespace
}  // namespace spillway::cpu
