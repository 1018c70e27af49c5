// AVX-512 (F, BW, DQ, VL): 14 x 32 tiles in 28 of the 32 registers.
#include "ops/matmul/cpu/kernels.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own intrinsics (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <array>

#include "backend/cpu/target.h"

SPILLWAY_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,fma")
#include "ops/matmul/cpu/few_rows.h"
#include "ops/matmul/cpu/tile.h"
#include "ops/matmul/cpu/vectors_avx512.h"

namespace spillway::cpu {
namespace {

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
extern const MatmulKernels::Streamed kAvx512Bf16Streamed;
extern const std::array<MatmulKernels::Tile, 32> kAmxBf16Tiles, kAmxBf16NarrowTiles;
void release_amx_tiles();

namespace {

constexpr MatmulKernels::Streamed kF32Streamed = streamed_f32<Avx512, 14, 1>(28);
constexpr MatmulKernels::Tiles kF32Tiles = {.rows = 14,
                                            .columns = 32,
                                            .wide = kTiles,
                                            .narrow = kNarrowTiles,
                                            .pack_left = pack_panel<Avx512>,
                                            .streamed = &kF32Streamed};

}  // namespace

extern const MatmulKernels kAvx512Kernels = {"avx512", kF32Tiles, {}, pack_panel<Avx512>, finish_tile<Avx512>};
extern const MatmulKernels kAvx512Bf16Kernels = {"avx512_bf16",
                                                 kF32Tiles,
                                                 {.rows = 14,
                                                  .columns = 32,
                                                  .wide = kAvx512Bf16Tiles,
                                                  .narrow = kAvx512Bf16NarrowTiles,
                                                  .pack_left = pack_panel<Avx512>,
                                                  .streamed = &kAvx512Bf16Streamed},
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
