// AVX-512 (F, BW, DQ, VL): 14 x 32 tiles in 28 of the 32 registers.
#include "ops/matmul/cpu/kernels.h"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12's own intrinsics (GCC bug 105593)
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <array>
#include <utility>

#include "backend/cpu/target.h"

SPILLWAY_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,fma")
#include "ops/matmul/cpu/few_rows.h"
#include "ops/matmul/cpu/tile.h"
#include "ops/matmul/cpu/vectors_avx512.h"

namespace spillway::cpu {
namespace {

using Rows = std::make_integer_sequence<int, 14>;
constexpr auto kTiles = multiply_tiles<Avx512, 2>(Rows()), kNarrowTiles = multiply_tiles<Avx512, 1>(Rows());

}  // namespace

extern const std::array<MatmulKernels::Tile, 14> kAvx512Bf16Tiles, kAvx512Bf16NarrowTiles;
extern const MatmulKernels::Streamed kAvx512Bf16Streamed;
extern const std::array<MatmulKernels::Tile, 32> kAmxBf16Tiles, kAmxBf16NarrowTiles;
void release_amx_tiles();

namespace {

constexpr MatmulKernels::Streamed kF32Streamed = streamed_f32<Avx512, 14, 1>(28, 28);
constexpr MatmulKernels::Tiles kF32Tiles = {.rows = 14,
                                            .columns = 32,
                                            .wide = kTiles.data(),
                                            .narrow = kNarrowTiles.data(),
                                            .pack_left = pack_panel<Avx512>,
                                            .streamed = &kF32Streamed};

}  // namespace

extern const MatmulKernels kAvx512Kernels = {"avx512", kF32Tiles, {}, pack_panel<Avx512>, finish_tile<Avx512>};
extern const MatmulKernels kAvx512Bf16Kernels = {"avx512_bf16",
                                                 kF32Tiles,
                                                 {.rows = 14,
                                                  .columns = 32,
                                                  .wide = kAvx512Bf16Tiles.data(),
                                                  .narrow = kAvx512Bf16NarrowTiles.data(),
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
     .leave = release_amx_tiles,
     .joins_tails = true,
     .waits_for_memory = true},
    pack_panel<Avx512>,
    finish_tile<Avx512WithPastCaches>};

}  // namespace spillway::cpu
SPILLWAY_TARGET_END
#endif
