// Tiles of queries walk over tiles of keys with an online softmax (Milakov and Gimelshein, 2018).
//
// A tile of queries holds the rows of some tokens with all query heads of one key head: row = token * group + head.
// Rows and columns that a tile has beyond its data are zero.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cached_attention/cached_attention_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/cached_attention/tile_sizes.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The left operand of a product: element (row, k) at data[row * row_step + k * k_step].
struct LeftTile {
  const float* data;
  int64_t row_step, k_step;
};

// c [rows, columns] += a [rows, depth] b [depth, columns]. REQUIRES: rows divide by 4, columns by 32; c and b are
// dense.
inline void add_product(int64_t rows, int64_t columns, int64_t depth, LeftTile a, const float* b, float* c) {
  for (int64_t row = 0; row < rows; row += 4) {
    for (int64_t column = 0; column < columns; column += 2 * lanes()) {
      Vector sums[4][2];
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 2; ++j) sums[i][j] = load(c + (row + i) * columns + column + j * lanes());
      }
      for (int64_t k = 0; k < depth; ++k) {
        const Vector right[2] = {load(b + k * columns + column), load(b + k * columns + column + lanes())};
        for (int i = 0; i < 4; ++i) {
          const Vector left = constant(a.data[(row + i) * a.row_step + k * a.k_step]);
          for (int j = 0; j < 2; ++j) sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
        }
      }
      for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 2; ++j) store(sums[i][j], c + (row + i) * columns + column + j * lanes());
      }
    }
  }
}

// Copies `count` elements as f32 times `factor`, and zeros up to `width`.
template <typename T>
void copy_row(const T* from, int64_t count, float factor, int64_t width, float* to) {
  map(
      0, count, [factor](Vector v) HWY_ATTR { return hn::Mul(v, constant(factor)); }, to, from);
  std::fill(to + count, to + width, 0.0f);
}

// Keys (or values) [begin, end) of key head `head`, one per row.
template <typename T>
void load_keys(const TileSizes& sizes, const T* from, int64_t head, int64_t begin, int64_t end, float* tile) {
  for (int64_t key = begin; key < end; ++key) {
    copy_row(from + (key * sizes.kv_heads + head) * sizes.head_size, sizes.head_size, 1, sizes.width,
             tile + (key - begin) * sizes.width);
  }
  std::fill(tile + (end - begin) * sizes.width, tile + kTileKeys * sizes.width, 0.0f);
}

// [kTileKeys, width] to [width, kTileKeys].
inline void transpose_keys(const TileSizes& sizes, const float* tile, float* transposed) {
  constexpr int64_t kStep = 8;
  for (int64_t column = 0; column < sizes.width; column += kStep) {
    for (int64_t key = 0; key < kTileKeys; ++key) {
      for (int64_t i = 0; i < kStep; ++i) {
        transposed[(column + i) * kTileKeys + key] = tile[key * sizes.width + column + i];
      }
    }
  }
}

// Tokens [begin, end) with the query heads of key head `head`, times `factor`.
template <typename T>
void load_queries(const TileSizes& sizes, const T* from, int64_t head, int64_t begin, int64_t end, float factor,
                  float* tile) {
  for (int64_t token = begin; token < end; ++token) {
    for (int64_t i = 0; i < sizes.group; ++i) {
      copy_row(from + (token * sizes.heads + head * sizes.group + i) * sizes.head_size, sizes.head_size, factor,
               sizes.width, tile + ((token - begin) * sizes.group + i) * sizes.width);
    }
  }
  std::fill(tile + (end - begin) * sizes.group * sizes.width, tile + sizes.rows(end - begin) * sizes.width, 0.0f);
}

// Writes such a tile back, row r times factor(r).
template <typename T, typename Factor>
void store_queries(const TileSizes& sizes, const float* tile, int64_t head, int64_t begin, int64_t end,
                   const Factor& factor, T* to) {
  for (int64_t row = 0; row < (end - begin) * sizes.group; ++row) {
    const int64_t token = begin + row / sizes.group, i = row % sizes.group;
    const float f = factor(row);
    map(
        0, sizes.head_size, [f](Vector v) HWY_ATTR { return hn::Mul(v, constant(f)); },
        to + (token * sizes.heads + head * sizes.group + i) * sizes.head_size, tile + row * sizes.width);
  }
}

// The keys that a token sees, [begin, end); neither shrinks from one token to the next.
struct KeyRange {
  int64_t begin, end;
};

// Scores of keys that a row does not see become minus infinity.
template <typename Ranges>
void mask_scores(const TileSizes& sizes, const Ranges& range_of, int64_t token_begin, int64_t token_end,
                 int64_t key_begin, float* scores) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (int64_t token = token_begin; token < token_end; ++token) {
    const KeyRange range = range_of(token);
    const int64_t first = std::clamp<int64_t>(range.begin - key_begin, 0, kTileKeys);
    const int64_t last = std::clamp<int64_t>(range.end - key_begin, first, kTileKeys);
    for (int64_t i = 0; i < sizes.group; ++i) {
      float* row = scores + ((token - token_begin) * sizes.group + i) * kTileKeys;
      std::fill(row, row + first, kNever);
      std::fill(row + last, row + kTileKeys, kNever);
    }
  }
}

// Adds a tile of scores to the softmax of one row: turns them into weights relative to the largest score so far, and
// returns by how much what has been summed before must shrink.
inline float absorb_scores(float* scores, float* largest, float* denominator) {
  Vector most = constant(*largest);
  for (int64_t i = 0; i < kTileKeys; i += lanes()) most = hn::Max(most, load(scores + i));
  const float now = hn::GetLane(hn::MaxOfLanes(Floats(), most));
  if (now == -std::numeric_limits<float>::infinity()) {
    std::fill(scores, scores + kTileKeys, 0.0f);
    return 1;
  }
  Vector total = zero();
  for (int64_t i = 0; i < kTileKeys; i += lanes()) {
    const Vector weight = hn::Exp(Floats(), hn::Sub(load(scores + i), constant(now)));
    store(weight, scores + i);
    total = hn::Add(total, weight);
  }
  const float shrink = std::exp(*largest - now);
  *denominator = *denominator * shrink + hn::GetLane(hn::SumOfLanes(Floats(), total));
  *largest = now;
  return shrink;
}

// The output of tokens [begin, end) for one key head.
template <typename T, typename Ranges>
void attend_tile(const TileSizes& sizes, float scale, const T* q, const T* k, const T* v, const Ranges& range_of,
                 int64_t head, int64_t begin, int64_t end, float* workspace, T* o) {
  const int64_t rows = (end - begin) * sizes.group, padded = sizes.rows(end - begin);
  float* queries = workspace;
  float* sums = queries + padded * sizes.width;
  float* keys = sums + padded * sizes.width;
  float* transposed = keys + kTileKeys * sizes.width;
  float* scores = transposed + kTileKeys * sizes.width;
  float* largest = scores + padded * kTileKeys;
  float* denominator = largest + padded;

  load_queries(sizes, q, head, begin, end, scale, queries);
  std::fill(sums, sums + padded * sizes.width, 0.0f);
  std::fill(largest, largest + rows, -std::numeric_limits<float>::infinity());
  std::fill(denominator, denominator + rows, 0.0f);
  const int64_t last_key = range_of(end - 1).end;
  for (int64_t key = range_of(begin).begin; key < last_key; key += kTileKeys) {
    const int64_t key_end = std::min(last_key, key + kTileKeys);
    load_keys(sizes, k, head, key, key_end, keys);
    transpose_keys(sizes, keys, transposed);
    std::fill(scores, scores + padded * kTileKeys, 0.0f);
    add_product(padded, kTileKeys, sizes.head_size, {queries, sizes.width, 1}, transposed, scores);
    mask_scores(sizes, range_of, begin, end, key, scores);
    for (int64_t row = 0; row < rows; ++row) {
      const float shrink = absorb_scores(scores + row * kTileKeys, largest + row, denominator + row);
      float* sum = sums + row * sizes.width;
      if (shrink != 1)
        map(
            0, sizes.width, [=](Vector s) HWY_ATTR { return hn::Mul(s, constant(shrink)); }, sum, sum);
    }
    load_keys(sizes, v, head, key, key_end, keys);
    add_product(padded, sizes.width, key_end - key, {scores, kTileKeys, 1}, keys, sums);
  }
  store_queries(
      sizes, sums, head, begin, end, [&](int64_t row) { return 1 / denominator[row]; }, o);
}

// The output of all tokens. Tiles of queries and key heads are independent of each other.
template <typename T, typename Ranges>
void attend(const KernelArgs& args, const TensorView& k, const TensorView& v, const Ranges& range_of) {
  const TileSizes sizes(args.attributes);
  const TensorView& q = args.inputs[0];
  const auto scale = static_cast<float>(args.attributes.real("scale"));
  const int64_t tokens = q.shape[0], tiles = div_ceil(tokens, sizes.tile_tokens);
  args.threads->parallel_for(tiles * sizes.kv_heads, 1, [&](int64_t item_begin, int64_t item_end, int thread) {
    float* workspace = reinterpret_cast<float*>(args.workspace) + thread * sizes.thread_floats();
    for (int64_t item = item_begin; item < item_end; ++item) {
      const int64_t begin = item / sizes.kv_heads * sizes.tile_tokens;
      attend_tile(sizes, scale, q.as<T>(), k.as<T>(), v.as<T>(), range_of, item % sizes.kv_heads, begin,
                  std::min(tokens, begin + sizes.tile_tokens), workspace, args.outputs[0].as<T>());
    }
  });
}

void cached_attention(const KernelArgs& args) {
  const TensorView &q = args.inputs[0], &k = args.inputs[1], &v = args.inputs[2];
  const int64_t start = *args.inputs[3].as<int32_t>(), window = args.attributes.integer("sliding_window");
  SPILLWAY_CHECK(start >= 0 && start + q.shape[0] <= k.shape[0], "tokens [{}, {}) on a cache of {}", start,
                 start + q.shape[0], k.shape[0]);
  const auto range_of = [=](int64_t token) {
    const int64_t position = start + token;
    return KeyRange{window > 0 ? std::max<int64_t>(0, position - window + 1) : 0, position + 1};
  };
  with_real(q.dtype, [&]<typename T>(T*) { attend<T>(args, k, v, range_of); });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(cached_attention);
void cached_attention_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(cached_attention)(args); }
}  // namespace spillway::ops
#endif
