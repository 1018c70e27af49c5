// A token with the query heads of one key head walks over tiles of the keys that it sees, with an online softmax
// (Milakov and Gimelshein, 2018). Tiles count from the sequence's first key, so that the bits of a token depend on its
// own sequence only.
#include "ops/attention/cpu/decode.h"

#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/cpu/decode.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/attention/operands.h"
#include "ops/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// One thread's part of the workspace.
struct DecodeSpace {
  float *queries, *sums;          // [group, width], zeros beyond the head
  float* scores;                  // [group, kDecodeKeys]
  float *largest, *denominators;  // [group]

  DecodeSpace(const DecodeSizes& sizes, float* memory)
      : queries(memory),
        sums(queries + sizes.group * sizes.width),
        scores(sums + sizes.group * sizes.width),
        largest(scores + sizes.group * kDecodeKeys),
        denominators(largest + sizes.group) {}
};

// Loads elements [i, i + lanes()) of a head, zeros beyond it.
template <typename T>
HWY_INLINE Vector load_part(const T* head, int64_t i, int64_t size) {
  if (i + lanes() <= size) return load(head + i);
  return i < size ? load_some(head + i, size - i) : zero();
}

// Computes scores [kRows, kDecodeKeys], one column = queries [kRows, width] times one key.
template <int kRows, typename T>
void score_key(const DecodeSizes& sizes, const float* queries, const T* key, float* scores) {
  Vector sums[kRows];
  for (Vector& sum : sums) sum = zero();
  for (int64_t i = 0; i < sizes.head_size; i += lanes()) {
    const Vector of_key = load_part(key, i, sizes.head_size);
    for (int row = 0; row < kRows; ++row)
      sums[row] = hn::MulAdd(load(queries + row * sizes.width + i), of_key, sums[row]);
  }
  for (int row = 0; row < kRows; ++row) scores[row * kDecodeKeys] = hn::GetLane(hn::SumOfLanes(Floats(), sums[row]));
}

// Computes sums [kRows, width] += weights [kRows, kDecodeKeys] times values, of keys [begin, end) of the tile.
template <int kRows, typename T>
void add_values(const DecodeSizes& sizes, const float* weights, const T* values, int64_t begin, int64_t end,
                float* sums) {
  const int64_t pitch = sizes.kv_heads * sizes.head_size;
  for (int64_t i = 0; i < sizes.head_size; i += 2 * lanes()) {
    Vector left[kRows], right[kRows];
    for (int row = 0; row < kRows; ++row) {
      left[row] = load(sums + row * sizes.width + i);
      right[row] = load(sums + row * sizes.width + i + lanes());
    }
    for (int64_t key = begin; key < end; ++key) {
      const Vector of_left = load_part(values + key * pitch, i, sizes.head_size);
      const Vector of_right = load_part(values + key * pitch, i + lanes(), sizes.head_size);
      for (int row = 0; row < kRows; ++row) {
        const Vector weight = constant(weights[row * kDecodeKeys + key]);
        left[row] = hn::MulAdd(weight, of_left, left[row]);
        right[row] = hn::MulAdd(weight, of_right, right[row]);
      }
    }
    for (int row = 0; row < kRows; ++row) {
      store(left[row], sums + row * sizes.width + i);
      store(right[row], sums + row * sizes.width + i + lanes());
    }
  }
}

// Calls f with the number of rows as a constant for blocks of them, and with the first row of each.
template <typename Function>
void for_rows(int64_t rows, const Function& f) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) f(std::integral_constant<int, 4>(), row);
  if (rows - row == 3) return f(std::integral_constant<int, 3>(), row);
  if (rows - row == 2) return f(std::integral_constant<int, 2>(), row);
  if (rows - row == 1) return f(std::integral_constant<int, 1>(), row);
}

// Caps the scaled scores of the keys that are seen; the others stay unchanged.
inline void cap_scores(float* scores, int64_t begin, int64_t end, float cap) {
  const ScoreMap scaled{.scale = 1, .cap = cap};
  map(
      begin, end, [=](Vector score) HWY_ATTR { return score_of<true>(score, scaled).v; }, scores, scores);
}

// Adds a tile of scores to the softmax of one row: turns them into weights relative to the largest score so far, and
// returns the factor by which earlier sums must shrink.
inline float absorb_scores(float* scores, float* largest, float* denominator) {
  Vector most = constant(*largest);
  for (int64_t i = 0; i < kDecodeKeys; i += lanes()) most = hn::Max(most, load(scores + i));
  const float now = hn::GetLane(hn::MaxOfLanes(Floats(), most));
  Vector total = zero();
  for (int64_t i = 0; i < kDecodeKeys; i += lanes()) {
    const Vector weight = exp_of(hn::Sub(load(scores + i), constant(now)));
    store(weight, scores + i);
    total = hn::Add(total, weight);
  }
  const float shrink = std::exp(*largest - now);
  *denominator = *denominator * shrink + hn::GetLane(hn::SumOfLanes(Floats(), total));
  *largest = now;
  return shrink;
}

// Continues the softmax and the sums over keys [begin, end) of a tile, whose rows of the cache start at k and v.
template <typename T>
void absorb_tile(const DecodeSizes& sizes, float cap, const T* k, const T* v, int64_t begin, int64_t end,
                 DecodeSpace& space) {
  const int64_t pitch = sizes.kv_heads * sizes.head_size;
  std::fill(space.scores, space.scores + sizes.group * kDecodeKeys, kNever);
  for (int64_t key = begin; key < end; ++key) {
    for_rows(sizes.group, [&](auto rows, int64_t row) {
      score_key<rows>(sizes, space.queries + row * sizes.width, k + key * pitch,
                      space.scores + row * kDecodeKeys + key);
    });
  }
  for (int64_t row = 0; row < sizes.group; ++row) {
    if (cap > 0) cap_scores(space.scores + row * kDecodeKeys, begin, end, cap);
    const float shrink = absorb_scores(space.scores + row * kDecodeKeys, space.largest + row, space.denominators + row);
    float* sum = space.sums + row * sizes.width;
    if (shrink != 1)
      map(
          0, sizes.width, [=](Vector s) HWY_ATTR { return hn::Mul(s, constant(shrink)); }, sum, sum);
  }
  for_rows(sizes.group, [&](auto rows, int64_t row) {
    add_values<rows>(sizes, space.scores + row * kDecodeKeys, v, begin, end, space.sums + row * sizes.width);
  });
}

// Computes one token with the query heads from `head` on that share a key head. q and o begin at its first query head;
// k and v at the key head in its sequence's first row.
template <typename T>
void decode_heads(const DecodeSizes& sizes, const AttentionArgs& args, int64_t head, int64_t position, const T* q,
                  const T* k, const T* v, DecodeSpace space, T* o) {
  std::fill(space.queries, space.queries + sizes.group * sizes.width, 0.0f);
  for (int64_t row = 0; row < sizes.group; ++row) {
    map(
        0, sizes.head_size, [&args](Vector x) HWY_ATTR { return score_of<false>(x, args.scores).v; },
        space.queries + row * sizes.width, q + row * sizes.head_size);
    const SoftmaxState start = args.sinks.start(head + row);
    space.largest[row] = start.maximum;
    space.denominators[row] = start.sum;
  }
  std::fill(space.sums, space.sums + sizes.group * sizes.width, 0.0f);

  const int64_t pitch = sizes.kv_heads * sizes.head_size;
  const int64_t first = first_key_seen<int64_t>(position, 0, args.window);
  for (int64_t tile = first / kDecodeKeys * kDecodeKeys; tile <= position; tile += kDecodeKeys) {
    absorb_tile(sizes, args.scores.cap, k + tile * pitch, v + tile * pitch, std::max<int64_t>(0, first - tile),
                std::min(kDecodeKeys, position + 1 - tile), space);
  }
  for (int64_t row = 0; row < sizes.group; ++row) {
    const float factor = 1 / space.denominators[row];
    map(
        0, sizes.head_size, [=](Vector s) HWY_ATTR { return hn::Mul(s, constant(factor)); }, o + row * sizes.head_size,
        space.sums + row * sizes.width);
  }
}

template <typename T>
void decode_all(const KernelArgs& kernel, const AttentionArgs& args) {
  const DecodeSizes sizes(args);
  const int32_t *const first = args.cache.first, *const own = args.cache.own;
  const auto *q = static_cast<const T*>(args.q), *k = static_cast<const T*>(args.k), *v = static_cast<const T*>(args.v);
  auto* const o = static_cast<T*>(args.o);
  const int64_t rows = kernel.inputs[attention_op::kKey].shape[0];
  kernel.threads->parallel_for(args.tokens * sizes.kv_heads, 1, [&](int64_t begin, int64_t end, int thread) {
    const DecodeSpace space(sizes, reinterpret_cast<float*>(kernel.workspace) + thread * sizes.thread_floats());
    for (int64_t item = begin; item < end; ++item) {
      const int64_t token = item / sizes.kv_heads, kv_head = item % sizes.kv_heads, head = kv_head * sizes.group;
      SPILLWAY_CHECK(first[token] >= 0 && first[token] <= own[token] && own[token] < rows,
                     "rows [{}, {}] of a cache of {}", first[token], own[token], rows);
      const int64_t key = first[token] * args.k_width() + kv_head * sizes.head_size;
      const int64_t query = (token * sizes.heads + head) * sizes.head_size;
      decode_heads(sizes, args, head, own[token] - first[token], q + query, k + key, v + key, space, o + query);
    }
  });
}

void decode_attention(const KernelArgs& kernel) {
  const AttentionArgs args = cached_attention_args(kernel);
  with_real(args.dtype, [&]<typename T>(T*) { decode_all<T>(kernel, args); });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(decode_attention);
void decode_attention_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(decode_attention)(args); }
}  // namespace spillway::ops
#endif
