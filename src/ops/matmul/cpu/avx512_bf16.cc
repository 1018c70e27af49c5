// AVX512-BF16: the tiles of matmul_avx512.cc for pairs of bf16, two products a word and step.
#include "ops/matmul/cpu/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "backend/cpu/target.h"

SPILLWAY_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")
#include "ops/matmul/cpu/tile.h"

namespace spillway::cpu {
namespace {

struct Avx512Bf16 {
  using Vector = __m512;
  static constexpr int kLanes = 16;

  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector broadcast(const void* pair) {
    float bits;  // a pair of a matrix that is read where it lies may start at any even address
    std::memcpy(&bits, pair, sizeof(bits));
    return _mm512_set1_ps(bits);
  }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
  }
  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Vector value) { _mm512_storeu_ps(to, value); }
};

}  // namespace

extern const MatmulKernels::Tile kAvx512Bf16Tiles[14], kAvx512Bf16NarrowTiles[14];
const MatmulKernels::Tile kAvx512Bf16Tiles[14] = {
    multiply_tile<Avx512Bf16, 1, 2>,  multiply_tile<Avx512Bf16, 2, 2>,  multiply_tile<Avx512Bf16, 3, 2>,
    multiply_tile<Avx512Bf16, 4, 2>,  multiply_tile<Avx512Bf16, 5, 2>,  multiply_tile<Avx512Bf16, 6, 2>,
    multiply_tile<Avx512Bf16, 7, 2>,  multiply_tile<Avx512Bf16, 8, 2>,  multiply_tile<Avx512Bf16, 9, 2>,
    multiply_tile<Avx512Bf16, 10, 2>, multiply_tile<Avx512Bf16, 11, 2>, multiply_tile<Avx512Bf16, 12, 2>,
    multiply_tile<Avx512Bf16, 13, 2>, multiply_tile<Avx512Bf16, 14, 2>};
const MatmulKernels::Tile kAvx512Bf16NarrowTiles[14] = {
    multiply_tile<Avx512Bf16, 1, 1>,  multiply_tile<Avx512Bf16, 2, 1>,  multiply_tile<Avx512Bf16, 3, 1>,
    multiply_tile<Avx512Bf16, 4, 1>,  multiply_tile<Avx512Bf16, 5, 1>,  multiply_tile<Avx512Bf16, 6, 1>,
    multiply_tile<Avx512Bf16, 7, 1>,  multiply_tile<Avx512Bf16, 8, 1>,  multiply_tile<Avx512Bf16, 9, 1>,
    multiply_tile<Avx512Bf16, 10, 1>, multiply_tile<Avx512Bf16, 11, 1>, multiply_tile<Avx512Bf16, 12, 1>,
    multiply_tile<Avx512Bf16, 13, 1>, multiply_tile<Avx512Bf16, 14, 1>};

}  // namespace spillway::cpu
SPILLWAY_TARGET_END
#endif
