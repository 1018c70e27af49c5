// The arguments of the kernels of attention on the device, and what they ask of them.
#pragma once

#include <algorithm>
#include <type_traits>

#include "backend/cuda/reduce.cuh"
#include "ops/attention/cuda/kernels.h"
#include "ops/attention/scores-inl.h"

namespace spillway::cuda {

// Takes one tile after another from the block's dynamic shared memory: anything that has `data` and takes kBytes of it.
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

// The ranges that see each other, if there is no cache. Row i sees the keys from first_key[i] to i, or to last_key[i]
// if attention is not causal; then the rows from first_row[j] to last_row[j] see key j. For rows and keys that are left
// out, ~first_key[i] and ~first_row[j] hold the same. None of them falls from one element to the next.
struct Ranges {
  const int32_t *first_key = nullptr, *last_key = nullptr, *first_row = nullptr, *last_row = nullptr;
};
__device__ inline int without_mark(int first) { return first < 0 ? ~first : first; }

// Returns true if one of a tile's rows is not left out: the same for all threads, all of which must call.
template <int kRows, typename HasRow>
__device__ bool has_any(int first_row, const HasRow& has_row) {
  bool found = false;
  for (int row = lane_index(); row < kRows; row += kWarp) found = found || has_row(first_row + row);
  return __ballot_sync(kAllLanes, found) != 0;
}

using ops::score_of;
using ops::ScoreMap;
using ops::slope_of;
using ops::SoftmaxState;

template <typename T>
struct Problem {
  int tokens, key_tokens, heads, kv_heads, head_size, window;
  ScoreMap map;
  ops::Sinks sinks;
  const T *q, *k, *v;
  Ranges ranges;
  ops::CachedKeys cache;

  [[nodiscard]] __device__ int64_t q_pitch() const { return int64_t{heads} * head_size; }
  [[nodiscard]] __device__ int64_t k_pitch() const { return int64_t{kv_heads} * head_size; }
  [[nodiscard]] __device__ int kv_head(int head) const { return head / (heads / kv_heads); }
  [[nodiscard]] __device__ bool has_cache() const { return ranges.first_key == nullptr; }
  [[nodiscard]] __device__ int last_key(int row) const {
    if (has_cache()) return cache.own[row];
    return ranges.last_key == nullptr ? row : ranges.last_key[row];
  }
  // Returns the first key of a row; it never falls from one row to the next of a segment.
  [[nodiscard]] __device__ int first_key_of(int row) const {
    if (!has_cache()) return without_mark(ranges.first_key[row]);
    return ops::first_key_seen(last_key(row), cache.first[row], window);
  }
  // Returns the end of the rows from `row` on, of a tile that ends at `end`, that walk over their keys together: all,
  // but on a cache only those of one sequence, whose rows of the cache may be anywhere.
  [[nodiscard]] __device__ int segment_end(int row, int end) const {
    if (!has_cache()) return end;
    int next = row + 1;
    while (next < end && cache.first[next] == cache.first[row]) ++next;
    return next;
  }
  // Returns true if the row is not left out; a row of a tile that is past the last token is.
  [[nodiscard]] __device__ bool has(int row) const {
    return row < tokens && (has_cache() || ranges.first_key[row] >= 0);
  }
  // Does the same for a key; not for a cache's.
  [[nodiscard]] __device__ bool has_key(int key) const {
    return key < key_tokens && (ranges.first_row == nullptr ? ranges.first_key : ranges.first_row)[key] >= 0;
  }
  // Return the first row that sees a key or one after it, and the end of the rows that see it or one before it.
  [[nodiscard]] __device__ int first_row_of(int key) const {
    return ranges.first_row == nullptr ? key : without_mark(ranges.first_row[key]);
  }
  [[nodiscard]] __device__ int row_end_of(int key) const {
    return ranges.first_row == nullptr ? tokens : ranges.last_row[key] + 1;
  }
  // Returns the keys of a row; none for a row that is left out.
  [[nodiscard]] __device__ KeyRange keys_of(int row) const {
    return has(row) ? KeyRange{first_key_of(row), last_key(row)} : KeyRange{0, -1};
  }
};

template <typename T>
Problem<T> problem_of(const AttentionArgs& args, const Ranges& ranges) {
  return {.tokens = narrow<int>(args.tokens),
          .key_tokens = narrow<int>(args.key_rows()),
          .heads = narrow<int>(args.heads),
          .kv_heads = narrow<int>(args.kv_heads),
          .head_size = narrow<int>(args.head_size),
          .window = narrow<int>(args.window),
          .map = args.scores,
          .sinks = args.sinks,
          .q = static_cast<const T*>(args.q),
          .k = static_cast<const T*>(args.k),
          .v = static_cast<const T*>(args.v),
          .ranges = ranges,
          .cache = args.cache};
}

// Calls f(the padded head size as a constant, whether scores are capped as one).
template <typename Function>
void with_attention_head(const AttentionArgs& args, const Function& f) {
  const auto with_size = [&](auto size) {
    args.scores.cap > 0 ? f(size, std::true_type()) : f(size, std::false_type());
  };
  if (args.head_size <= 64) return with_size(std::integral_constant<int, 64>());
  if (args.head_size <= 128) return with_size(std::integral_constant<int, 128>());
  with_size(std::integral_constant<int, 256>());
}

// The softmax's weight and the gradient of q k', from q k' and d_o v'.
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

  // Returns zeros for a row that sees nothing, such as one that is left out, which has no sums.
  [[nodiscard]] __device__ RowSums sums_of(int row, int head, KeyRange visible) const {
    if (visible.is_empty()) return {0, 0};
    const int64_t at = int64_t{row} * forward.heads + head;
    return {lse[at], delta[at]};
  }
};

}  // namespace spillway::cuda
