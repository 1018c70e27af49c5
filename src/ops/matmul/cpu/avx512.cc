// AVX-512 (F, BW, DQ, VL): 14 x 32 tiles in 28 of the 32 registers.
#include "ops/matmul/cpu/kernels.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own intrinsics (GCC bug 105593)
#endif
#include <immintrin.h>

#include <array>

#include "backend/cpu/target.h"

SPILLWAY_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,fma")
#include "ops/matmul/cpu/tile.h"

namespace spillway::cpu {
namespace {

// Half words of two vectors, 0 to 31 of the first and 32 to 63 of the second: the upper halves of all words; and pairs
// of one of each, those of the lower and those of the upper half.
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
alignas(64) constexpr std::array<uint16_t, 32> kUpperHalves = make_upper_halves();
alignas(64) constexpr std::array<uint16_t, 64> kPairs = make_pairs();

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

  // Words whose upper halves are those of to_bf16(): in integers, since the instruction of AVX512-BF16 flushes denormal
  // numbers.
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

  // Two vectors of pairs, of 2 * kLanes elements of two rows.
  static void store_pairs(const bf16* even, const bf16* odd, float* to) {
    const __m512i low = _mm512_loadu_si512(even), high = _mm512_loadu_si512(odd);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(low, _mm512_load_si512(kPairs.data()), high));
    _mm512_storeu_si512(to + kLanes, _mm512_permutex2var_epi16(low, _mm512_load_si512(kPairs.data() + 32), high));
  }

  // Rows 4 * l + i of four words each make the lanes l of a vector as they are loaded, so that what is left is to
  // transpose 4 x 4 words within lanes: half the shuffles of transpose().
  static void load_transposed(const char* corner, int64_t row_bytes, Vector (&block)[16]) {
    Vector quads[4][4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const char* row = corner + i * row_bytes;
#pragma GCC unroll 4
      for (int quad = 0; quad < 4; ++quad) {
        const auto lane = [&](int l) {
          return _mm_loadu_ps(reinterpret_cast<const float*>(row + 4 * l * row_bytes + 16 * quad));
        };
        Vector words = _mm512_castps128_ps512(lane(0));
        words = _mm512_insertf32x4(words, lane(1), 1);
        words = _mm512_insertf32x4(words, lane(2), 2);
        quads[quad][i] = _mm512_insertf32x4(words, lane(3), 3);
      }
    }
#pragma GCC unroll 4
    for (int quad = 0; quad < 4; ++quad) {
      const auto& [a, b, c, d] = quads[quad];
      const __m512d ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)),
                    ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b)),
                    cd_low = _mm512_castps_pd(_mm512_unpacklo_ps(c, d)),
                    cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
      block[4 * quad] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, cd_low));
      block[4 * quad + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, cd_low));
      block[4 * quad + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high));
      block[4 * quad + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high));
    }
  }

  // 16 x 16 words: words within pairs of rows, then pairs of words, then 128-bit lanes twice.
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

constexpr MatmulKernels::Tile kTiles[] = {
    multiply_tile<Avx512, 1, 2>,  multiply_tile<Avx512, 2, 2>,  multiply_tile<Avx512, 3, 2>,
    multiply_tile<Avx512, 4, 2>,  multiply_tile<Avx512, 5, 2>,  multiply_tile<Avx512, 6, 2>,
    multiply_tile<Avx512, 7, 2>,  multiply_tile<Avx512, 8, 2>,  multiply_tile<Avx512, 9, 2>,
    multiply_tile<Avx512, 10, 2>, multiply_tile<Avx512, 11, 2>, multiply_tile<Avx512, 12, 2>,
    multiply_tile<Avx512, 13, 2>, multiply_tile<Avx512, 14, 2>};
constexpr MatmulKernels::Tile kNarrowTiles[] = {
    multiply_tile<Avx512, 1, 1>,  multiply_tile<Avx512, 2, 1>,  multiply_tile<Avx512, 3, 1>,
    multiply_tile<Avx512, 4, 1>,  multiply_tile<Avx512, 5, 1>,  multiply_tile<Avx512, 6, 1>,
    multiply_tile<Avx512, 7, 1>,  multiply_tile<Avx512, 8, 1>,  multiply_tile<Avx512, 9, 1>,
    multiply_tile<Avx512, 10, 1>, multiply_tile<Avx512, 11, 1>, multiply_tile<Avx512, 12, 1>,
    multiply_tile<Avx512, 13, 1>, multiply_tile<Avx512, 14, 1>};

}  // namespace

extern const MatmulKernels::Tile kAvx512Bf16Tiles[14], kAvx512Bf16NarrowTiles[14];
extern const std::array<MatmulKernels::Tile, 32> kAmxBf16Tiles, kAmxBf16NarrowTiles;
void release_amx_tiles();

namespace {

constexpr MatmulKernels::Tiles kF32Tiles = {14, 32, 1, kTiles, kNarrowTiles, pack_panel<Avx512>};

}  // namespace

extern const MatmulKernels kAvx512Kernels = {"avx512", kF32Tiles, {}, pack_panel<Avx512>, finish_tile<Avx512>};
extern const MatmulKernels kAvx512Bf16Kernels = {
    "avx512_bf16",
    kF32Tiles,
    {14, 32, 1, kAvx512Bf16Tiles, kAvx512Bf16NarrowTiles, pack_panel<Avx512>},
    pack_panel<Avx512>,
    finish_tile<Avx512>};
extern constinit const MatmulKernels kAmxBf16Kernels = {
    "amx_bf16",
    kF32Tiles,
    {.rows = 32,
     .columns = 32,
     .block = 16,
     .wide = kAmxBf16Tiles.data(),
     .narrow = kAmxBf16NarrowTiles.data(),
     .pack_left = pack_row_blocks<Avx512>,
     .depth = 320,  // whose right panel leaves the first cache of 48 KiB some room
     .left_words = 1 << 18,
     .few_rows = 128,
     .leave = release_amx_tiles},
    pack_panel<Avx512>,
    finish_tile<Avx512>};

}  // namespace spillway::cpu
SPILLWAY_TARGET_END
#endif
