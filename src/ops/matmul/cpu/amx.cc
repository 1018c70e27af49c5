// AMX-BF16: tiles of up to 32 x 32 sums in four tile registers, 16 pairs of bf16 along k a step. Intel, "Intrinsics
// for AMX Instructions" and the Software Developer's Manual, volume 1, chapter 18.
//
// An element of a step is the sum of its 16 first halves and the sum of its 16 second halves, added to each other, then
// to the element: the instruction's order, whatever the number of rows. Denormal numbers count as zero.
#include "ops/matmul/cpu/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cpu/target.h"

SPILLWAY_TARGET_BEGIN("amx-tile,amx-bf16,xsave")

namespace spillway::cpu {
namespace {

constexpr int kTileRows = 16, kTileWords = 16;
constexpr int kTileBytes = 64;  // of a row

// The memory that the instruction for setting up the tile registers reads.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0;
  std::array<uint8_t, 14> reserved = {};
  std::array<uint16_t, 16> row_bytes = {};
  std::array<uint8_t, 16> rows = {};
};

// Returns the setting in which registers 0 and 1 hold the sums of the upper 16 rows, 2 and 3 those of the lower; 4 and
// 5 the left operand's rows; 6 and 7 the right one's columns. A step multiplies `units` units of k, 16 at most.
TileConfig config_for(int rows, int units) {
  const int upper = std::min(rows, kTileRows), lower = rows - upper;
  TileConfig config;
  const auto set = [&](size_t tile, int count, int words) {
    if (count == 0) return;
    config.rows[tile] = static_cast<uint8_t>(count);
    config.row_bytes[tile] = static_cast<uint16_t>(4 * words);
  };
  for (const size_t tile : {0, 1}) set(tile, upper, kTileWords);
  for (const size_t tile : {2, 3}) set(tile, lower, kTileWords);
  set(4, upper, units);
  set(5, lower, units);
  for (const size_t tile : {6, 7}) set(tile, units, kTileWords);
  return config;
}

// The setting of this thread's registers; 0: not set up. The instruction takes as long as some steps, so that tiles of
// one shape share one setting.
struct Setting {
  int rows = 0, units = 0;
  bool operator==(const Setting&) const = default;
};
thread_local Setting setting;

void set_up(Setting wanted) {
  if (setting == wanted) return;
  const TileConfig config = config_for(wanted.rows, wanted.units);
  __asm__ volatile("ldtilecfg %0" : : "m"(config));
  setting = wanted;
}

void release() {
  if (setting == Setting{}) return;
  _tile_release();
  setting = {};
}

// Adds a step. The left operand passes by the first cache, in which the right one then stays for many tiles.
template <int kRows, int kColumnTiles>
void multiply_step(const char* left, int64_t row_bytes, const float* right) {
  constexpr int64_t kRightBytes = kColumnTiles * kTileBytes;
  _tile_stream_loadd(4, left, row_bytes);
  _tile_loadd(6, right, kRightBytes);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (kColumnTiles == 2) {
    _tile_loadd(7, right + kTileWords, kRightBytes);
    _tile_dpbf16ps(1, 4, 7);
  }
  if constexpr (kRows > kTileRows) {
    _tile_stream_loadd(5, left + kTileRows * row_bytes, row_bytes);
    _tile_dpbf16ps(2, 5, 6);
    if constexpr (kColumnTiles == 2) _tile_dpbf16ps(3, 5, 7);
  }
}

template <int kRows, int kColumnTiles>
void clear_sums() {
  _tile_zero(0);
  if constexpr (kColumnTiles == 2) _tile_zero(1);
  if constexpr (kRows > kTileRows) {
    _tile_zero(2);
    if constexpr (kColumnTiles == 2) _tile_zero(3);
  }
}

template <int kRows, int kColumnTiles>
void load_sums(const float* tile, int64_t stride_bytes) {
  _tile_loadd(0, tile, stride_bytes);
  if constexpr (kColumnTiles == 2) _tile_loadd(1, tile + kTileWords, stride_bytes);
  if constexpr (kRows > kTileRows) {
    const float* lower = tile + kTileRows * stride_bytes / static_cast<int64_t>(sizeof(float));
    _tile_loadd(2, lower, stride_bytes);
    if constexpr (kColumnTiles == 2) _tile_loadd(3, lower + kTileWords, stride_bytes);
  }
}

template <int kRows, int kColumnTiles>
void store_sums(float* tile, int64_t stride_bytes) {
  _tile_stored(0, tile, stride_bytes);
  if constexpr (kColumnTiles == 2) _tile_stored(1, tile + kTileWords, stride_bytes);
  if constexpr (kRows > kTileRows) {
    float* lower = tile + kTileRows * stride_bytes / static_cast<int64_t>(sizeof(float));
    _tile_stored(2, lower, stride_bytes);
    if constexpr (kColumnTiles == 2) _tile_stored(3, lower + kTileWords, stride_bytes);
  }
}

// Adds steps to the sums in the registers.
template <int kRows, int kColumnTiles>
void add_steps(const TileLeft& left, const float* right, int64_t steps) {
  const auto* rows = static_cast<const char*>(left.data);
  const char* ahead = left.ahead;
  for (; steps > 0; --steps) {
    // Prefetches a few lines a step, so that memory is under way while the product is computed.
    for (int64_t row = 0; row < left.ahead_rows; ++row) __builtin_prefetch(ahead + row * left.row_bytes, 0, 2);
    ahead += left.block_bytes;
    multiply_step<kRows, kColumnTiles>(rows, left.row_bytes, right);
    rows += left.block_bytes;
    right += kTileWords * kColumnTiles * kTileWords;
  }
}

template <int kRows, int kColumnTiles>
void add_tail(const TileTail& tail) {
  const TileLeft left{
      .data = tail.left, .row_bytes = kTileBytes, .block_bytes = kTileBytes * static_cast<int64_t>(tail.height)};
  add_steps<kRows, kColumnTiles>(left, tail.right, tail.units / kTileWords);
}

// Multiplies `steps` steps of `units` units each, and adds a tail, if there is one; then units are kTileWords.
template <int kRows, int kColumnTiles>
void multiply_steps(const TileLeft& left, const float* right, int64_t steps, int units, float* tile,
                    int64_t stride_bytes, bool accumulate, const TileTail* tail) {
  set_up({kRows, units});
  if (accumulate) {
    load_sums<kRows, kColumnTiles>(tile, stride_bytes);
  } else {
    clear_sums<kRows, kColumnTiles>();
  }
  add_steps<kRows, kColumnTiles>(left, right, steps);
  if (tail != nullptr) add_tail<kRows, kColumnTiles>(*tail);
  store_sums<kRows, kColumnTiles>(tile, stride_bytes);
}

template <int kRows, int kColumnTiles>
void multiply_tile(const TileLeft& left, const float* right, int64_t units, float* tile, int64_t tile_stride,
                   bool accumulate) {
  const int64_t stride_bytes = tile_stride * static_cast<int64_t>(sizeof(float));
  const int64_t steps = units / kTileWords;
  const int rest = static_cast<int>(units % kTileWords);
  // GCC 12's intrinsics do not say that they read memory.
  __asm__ volatile("" : : : "memory");
  if (steps > 0 || units == 0)
    multiply_steps<kRows, kColumnTiles>(left, right, steps, kTileWords, tile, stride_bytes, accumulate,
                                        rest > 0 ? nullptr : left.tail);
  if (rest > 0) {
    const TileLeft last{.data = static_cast<const char*>(left.data) + steps * left.block_bytes,
                        .row_bytes = left.row_bytes};
    multiply_steps<kRows, kColumnTiles>(last, right + steps * kTileWords * kColumnTiles * kTileWords, 1, rest, tile,
                                        stride_bytes, accumulate || steps > 0, nullptr);
    if (left.tail != nullptr)
      multiply_steps<kRows, kColumnTiles>({}, right, 0, kTileWords, tile, stride_bytes, true, left.tail);
  }
}

template <int kColumnTiles, int... kRowsBelow>
constexpr std::array<MatmulKernels::Tile, sizeof...(kRowsBelow)> tiles_of(std::integer_sequence<int, kRowsBelow...>) {
  return {multiply_tile<kRowsBelow + 1, kColumnTiles>...};
}
template <int kColumnTiles>
constexpr auto kTiles = tiles_of<kColumnTiles>(std::make_integer_sequence<int, 2 * kTileRows>());

}  // namespace

extern const std::array<MatmulKernels::Tile, 32> kAmxBf16Tiles, kAmxBf16NarrowTiles;
const std::array<MatmulKernels::Tile, 32> kAmxBf16Tiles = kTiles<2>, kAmxBf16NarrowTiles = kTiles<1>;

// Ends a thread's run of tiles; what it wrote past the caches is then in memory.
void release_amx_tiles();
void release_amx_tiles() {
  release();
  _mm_sfence();
}

}  // namespace spillway::cpu
SPILLWAY_TARGET_END
#endif
