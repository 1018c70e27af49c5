// What the kernels of attention (attention_kernels.cu, attention_tensor_cores.cu, attention_warpgroups.cu) are told,
// and what becomes of a score.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/cuda/reduce.cuh"
#include "ops/attention/cuda/kernels.h"

namespace spillway::cuda {

// Takes one tile after another from the block's dynamic shared memory: what has `data` and takes kBytes of it.
class SharedTiles {
 public:
  template <typename T>
  __device__ T take() {
    T tile{reinterpret_cast<decltype(T::data)>(next_)};
    next_ += T::kBytes;
    return tile;
  }

 private:
  std::byte* next_ = dynamic_shared();
};

// The keys [first, last] that a row sees.
struct KeyRange {
  int first, last;
  [[nodiscard]] __device__ bool has(int key) const { return key >= first && key <= last; }
  [[nodiscard]] __device__ bool is_empty() const { return first > last; }
};

// What sees what, where there is no cache. Row i sees the keys from first_key[i] to i, or to last_key[i] where
// attention is not causal; then the rows from first_row[j] to last_row[j] see key j. ~first_key[i] and ~first_row[j]
// say the same of what is left out. None of them falls from one element to the next.
struct Ranges {
  const int32_t *first_key = nullptr, *last_key = nullptr, *first_row = nullptr, *last_row = nullptr;
};
__device__ inline int without_mark(int first) { return first < 0 ? ~first : first; }

// Whether one of a tile's rows is not left out: the same for all threads, of which every one must ask.
template <int kRows, typename HasRow>
__device__ bool has_any(int first_row, const HasRow& has_row) {
  bool found = false;
  for (int row = lane_index(); row < kRows; row += kWarp) found = found || has_row(first_row + row);
  return __ballot_sync(kAllLanes, found) != 0;
}

// What becomes of a product of query and key before the softmax. Whether there is a cap is part of the kernel, so that
// the others are what they are without one.
struct ScoreMap {
  float scale, cap;
};
template <bool kCapped>
__device__ inline float score_of(float product, ScoreMap map) {
  if constexpr (kCapped) {
    return map.cap * tanhf(product * (map.scale / map.cap));
  } else {
    return product * map.scale;
  }
}
// How fast a score grows with its product.
template <bool kCapped>
__device__ inline float slope_of(float score, ScoreMap map) {
  if constexpr (!kCapped) return map.scale;
  const float part = score / map.cap;
  return map.scale * (1 - part * part);
}

template <typename T>
struct Problem {
  int tokens, key_tokens, heads, kv_heads, head_size, window;
  ScoreMap map;
  const T *q, *k, *v;
  Ranges ranges;
  CachedKeys cache;

  [[nodiscard]] __device__ int64_t q_pitch() const { return int64_t{heads} * head_size; }
  [[nodiscard]] __device__ int64_t k_pitch() const { return int64_t{kv_heads} * head_size; }
  [[nodiscard]] __device__ int kv_head(int head) const { return head / (heads / kv_heads); }
  [[nodiscard]] __device__ bool has_cache() const { return ranges.first_key == nullptr; }
  [[nodiscard]] __device__ int last_key(int row) const {
    if (has_cache()) return cache.own[row];
    return ranges.last_key == nullptr ? row : ranges.last_key[row];
  }
  // Never falls from one row to the next of a segment.
  [[nodiscard]] __device__ int first_key_of(int row) const {
    if (!has_cache()) return without_mark(ranges.first_key[row]);
    return window > 0 ? std::max(cache.first[row], last_key(row) - window + 1) : cache.first[row];
  }
  // Rows [row, the result) of a tile that ends at `end` walk over their keys together: all, but on a cache only those
  // of one sequence, whose rows of the cache may be anywhere.
  [[nodiscard]] __device__ int segment_end(int row, int end) const {
    if (!has_cache()) return end;
    int next = row + 1;
    while (next < end && cache.first[next] == cache.first[row]) ++next;
    return next;
  }
  // A row of a tile that is past the last token is left out, too.
  [[nodiscard]] __device__ bool has(int row) const {
    return row < tokens && (has_cache() || ranges.first_key[row] >= 0);
  }
  // The same of a key; not of a cache's.
  [[nodiscard]] __device__ bool has_key(int key) const {
    return key < key_tokens && (ranges.first_row == nullptr ? ranges.first_key : ranges.first_row)[key] >= 0;
  }
  // The first row that sees a key or one after it, and where the rows end that see it or one before it.
  [[nodiscard]] __device__ int first_row_of(int key) const {
    return ranges.first_row == nullptr ? key : without_mark(ranges.first_row[key]);
  }
  [[nodiscard]] __device__ int row_end_of(int key) const {
    return ranges.first_row == nullptr ? tokens : ranges.last_row[key] + 1;
  }
  // Nothing for a row that is left out.
  [[nodiscard]] __device__ KeyRange keys_of(int row) const {
    return has(row) ? KeyRange{first_key_of(row), last_key(row)} : KeyRange{0, -1};
  }
};

template <typename T>
Problem<T> problem_of(const AttentionArgs& args, int64_t key_tokens, const Ranges& ranges, const CachedKeys& cache) {
  return {.tokens = narrow<int>(args.tokens),
          .key_tokens = narrow<int>(key_tokens),
          .heads = narrow<int>(args.heads),
          .kv_heads = narrow<int>(args.kv_heads),
          .head_size = narrow<int>(args.head_size),
          .window = narrow<int>(args.window),
          .map = {args.scale, args.soft_cap},
          .q = static_cast<const T*>(args.q),
          .k = static_cast<const T*>(args.k),
          .v = static_cast<const T*>(args.v),
          .ranges = ranges,
          .cache = cache};
}

// Calls f(the padded head size as a constant, whether scores are capped as one).
template <typename Function>
void with_attention_head(const AttentionArgs& args, const Function& f) {
  const auto with_size = [&](auto size) { args.soft_cap > 0 ? f(size, std::true_type()) : f(size, std::false_type()); };
  if (args.head_size <= 64) return with_size(std::integral_constant<int, 64>());
  if (args.head_size <= 128) return with_size(std::integral_constant<int, 128>());
  with_size(std::integral_constant<int, 256>());
}

// From q k' and d_o v' the softmax's weight and the gradient of q k'.
struct ScoreGradient {
  float weight, gradient;
};
struct RowSums {
  float lse, delta;
};
template <bool kCapped>
__device__ inline ScoreGradient score_gradient(bool visible, float of_key, float of_value, ScoreMap map, RowSums row) {
  if (!visible) return {0, 0};
  const float score = score_of<kCapped>(of_key, map), weight = expf(score - row.lse);
  return {weight, weight * (of_value - row.delta) * slope_of<kCapped>(score, map)};
}

template <typename T>
struct GradProblem {
  Problem<T> forward;
  const T* d_o;
  const float *lse, *delta;
  T *dq, *dk, *dv;

  // Zeros for a row that sees nothing; what is left out has none.
  [[nodiscard]] __device__ RowSums sums_of(int row, int head, KeyRange visible) const {
    if (visible.is_empty()) return {0, 0};
    const int64_t at = int64_t{row} * forward.heads + head;
    return {lse[at], delta[at]};
  }
};

}  // namespace spillway::cuda
