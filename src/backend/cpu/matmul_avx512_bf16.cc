// AVX512-BF16: the tiles of matmul_avx512.cc for pairs of bf16, two products a word and step.
#include "backend/cpu/matmul_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "backend/cpu/target.h"

SPILLWAY_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")
#include "backend/cpu/matmul_tile.h"

namespace spillway::cpu {
namespace {

struct Avx512Bf16 {
  using Vector = __m512;
  static constexpr int kLanes = 16;

  static Vector zero() { return _mm512_setzero_ps(); }
  static Vector broadcast(const float* pair) { return _mm512_set1_ps(*pair); }
  static Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
  }
  static Vector load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Vector value) { _mm512_storeu_ps(to, value); }
};

}  // namespace

extern const MatmulKernels::Tile kAvx512Bf16Tiles[14];
const MatmulKernels::Tile kAvx512Bf16Tiles[14] = {
    multiply_tile<Avx512Bf16, 1>,  multiply_tile<Avx512Bf16, 2>,  multiply_tile<Avx512Bf16, 3>,
    multiply_tile<Avx512Bf16, 4>,  multiply_tile<Avx512Bf16, 5>,  multiply_tile<Avx512Bf16, 6>,
    multiply_tile<Avx512Bf16, 7>,  multiply_tile<Avx512Bf16, 8>,  multiply_tile<Avx512Bf16, 9>,
    multiply_tile<Avx512Bf16, 10>, multiply_tile<Avx512Bf16, 11>, multiply_tile<Avx512Bf16, 12>,
    multiply_tile<Avx512Bf16, 13>, multiply_tile<Avx512Bf16, 14>};

}  // namespace spillway::cpu
SPILLWAY_TARGET_END
#endif
