// Four-lane vectors that every compiler maps to SSE2 or NEON: 6 x 8 tiles in 12 registers.
#include <cstring>

#include "ops/matmul/cpu/kernels.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "ops/matmul/cpu/few_rows.h"
#include "ops/matmul/cpu/tile.h"

namespace spillway::cpu {
namespace {

struct Portable {
  using Vector __attribute__((vector_size(16))) = float;
  using Bits __attribute__((vector_size(16))) = uint32_t;
  static constexpr int kLanes = 4;

  static Vector zero() { return Vector{}; }
  static Vector broadcast(const void* value) {
    float one;
    std::memcpy(&one, value, sizeof(one));
    return Vector{one, one, one, one};
  }
  static Vector add(Vector a, Vector b) { return a + b; }
  static Vector multiply(Vector a, Vector b) { return a * b; }
  static Vector multiply_add(Vector a, Vector b, Vector c) {
#if defined(__aarch64__)
    return (Vector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
  }

  static Vector load(const float* from) { return load_halves(from); }
  static Vector load(const float* from, int64_t count) { return load_halves(from, 2 * count); }
  static void store(float* to, Vector value) { std::memcpy(to, &value, sizeof(value)); }
  static void store(float* to, Vector value, int64_t count) {
    std::memcpy(to, &value, static_cast<size_t>(count) * sizeof(float));
  }

  static Vector keep(Vector value, int64_t count) {
    for (int64_t lane = count; lane < kLanes; ++lane) value[lane] = 0;
    return value;
  }

  static Vector load_halves(const void* from) {
    Vector value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  static Vector load_halves(const void* from, int64_t halves) {
    Vector value{};
    std::memcpy(&value, from, static_cast<size_t>(halves) * sizeof(uint16_t));
    return value;
  }

  static Vector load(const bf16* from) {
    return Vector{to_float(from[0]), to_float(from[1]), to_float(from[2]), to_float(from[3])};
  }
  static Vector load(const bf16* from, int64_t count) {
    bf16 copy[kLanes] = {};
    std::memcpy(copy, from, static_cast<size_t>(count) * sizeof(bf16));
    return load(copy);
  }
  static void store(bf16* to, Vector value) { store(to, value, kLanes); }
  static void store(bf16* to, Vector value, int64_t count) {
    for (int64_t lane = 0; lane < count; ++lane) to[lane] = to_bf16(value[lane]);
  }

  static Vector pair_up(const bf16*, const bf16*, int64_t) { return zero(); }  // never called: no dot product of pairs

  // Loads four words of 4 rows: quad[i] gets word i of each.
  static void load_quad(const char* corner, int64_t row_bytes, Vector (&quad)[kLanes]) {
    for (int lane = 0; lane < kLanes; ++lane) quad[lane] = load_halves(corner + lane * row_bytes);
    transpose(quad);
  }
  static Vector lower(Vector words) { return (Vector)((Bits)words << 16); }
  static Vector upper(Vector words) { return (Vector)((Bits)words & 0xFFFF0000); }

  static void transpose(Vector (&rows)[kLanes]) {
    const Vector a = rows[0], b = rows[1], c = rows[2], d = rows[3];
    for (int i = 0; i < kLanes; ++i) rows[i] = Vector{a[i], b[i], c[i], d[i]};
  }
};

using Rows = std::make_integer_sequence<int, 6>;
constexpr auto kTiles = multiply_tiles<Portable, 2>(Rows()), kNarrowTiles = multiply_tiles<Portable, 1>(Rows());
constexpr MatmulKernels::Streamed kF32Streamed = streamed_elements<Portable, 4, 1>(4, 4);
constexpr MatmulKernels::Tiles kF32Tiles = {.rows = 6,
                                            .columns = 8,
                                            .wide = kTiles.data(),
                                            .narrow = kNarrowTiles.data(),
                                            .pack_left = pack_panel<Portable>,
                                            .streamed = &kF32Streamed};

}  // namespace

extern const MatmulKernels kPortableKernels;
const MatmulKernels kPortableKernels = {"portable", kF32Tiles, {}, pack_panel<Portable>, finish_tile<Portable>};

}  // namespace spillway::cpu
