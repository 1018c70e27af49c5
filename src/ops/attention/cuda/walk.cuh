// The tiles of keys that a tile of queries sees, the tiles of queries from which the gradients of a tile of keys come,
// and the numbers that these need.
#pragma once

#include "backend/cuda/tensor_cores.cuh"
#include "ops/attention/cuda/problem.cuh"

namespace spillway::cuda {

// Takes arguments by value: std::min would need the constants' addresses, which they do not have on the GPU.
__device__ inline int at_most(int limit, int value) { return value < limit ? value : limit; }

// The numbers of a row of queries that a score's gradient needs.
struct QueryFacts {
  KeyRange visible;
  RowSums sums;
};
template <typename T>
__device__ QueryFacts facts_of(const GradProblem<T>& grad, int row, int head) {
  const KeyRange visible = grad.forward.keys_of(row);
  return {visible, grad.sums_of(row, head, visible)};
}

// Walks over the tiles of kColumns keys that a tile of queries may see: for each of its segments (Problem::segment_end)
// those from its first key to its last.
template <typename T, int kColumns>
class KeyWalk {
 public:
  __device__ KeyWalk(const Problem<T>& problem, int first_row, int row_end)
      : problem_(problem), next_(first_row), row_end_(row_end) {
    find_segment();
  }
  [[nodiscard]] __device__ bool is_done() const { return key_ >= end_; }
  __device__ void advance() {
    key_ += kColumns;
    if (is_done()) find_segment();
  }
  [[nodiscard]] __device__ int key() const { return key_; }
  [[nodiscard]] __device__ int count() const { return at_most(kColumns, end_ - key_); }

 private:
  __device__ void find_segment() {
    while (next_ < row_end_ && is_done()) {
      const int segment = next_;
      next_ = problem_.segment_end(segment, row_end_);
      key_ = problem_.first_key_of(segment) / kColumns * kColumns;
      end_ = problem_.last_key(next_ - 1) + 1;
    }
  }

  const Problem<T>& problem_;
  int next_, row_end_;  // rows that are in none of the segments so far
  int key_ = 0, end_ = 0;
};

// Returns the end of the rows that see one of the keys [first_key, key_end). All lanes of a warp call together.
template <typename T>
__device__ int row_end_before(const Problem<T>& p, int first_key, int key_end) {
  if (p.ranges.last_row != nullptr) return p.ranges.last_row[key_end - 1] + 1;
  int low = first_key, high = p.tokens;  // rows before `low` see one, rows from `high` on none: first keys never fall
  while (low < high) {
    const int step = (high - low) / kWarp + 1, row = low + lane_index() * step;
    const unsigned blind = __ballot_sync(kAllLanes, row >= high || p.first_key_of(row) >= key_end);
    const int seeing = blind == 0 ? kWarp : __ffs(static_cast<int>(blind)) - 1;
    high = at_most(low + seeing * step, high);
    if (seeing > 0) low += (seeing - 1) * step + 1;
  }
  return low;
}

// Walks over the query heads of a key head, one after another, and in each over the tiles of kColumns queries that may
// see a tile of keys.
template <int kColumns>
struct QueryWalk {
  int begin, end;  // of the queries
  int head, head_end, query;

  template <typename T>
  __device__ QueryWalk(const Problem<T>& p, int first_key, int key_rows, int kv_head)
      : begin(p.first_row_of(first_key)),
        end(row_end_before(p, first_key, first_key + key_rows)),
        head(kv_head * (p.heads / p.kv_heads)),
        head_end(begin < end ? head + p.heads / p.kv_heads : head),
        query(begin) {}
  [[nodiscard]] __device__ bool is_done() const { return head >= head_end; }
  __device__ void advance() {
    query += kColumns;
    if (query < end) return;
    query = begin;
    ++head;
  }
  [[nodiscard]] __device__ int count() const { return at_most(kColumns, end - query); }
};

// The numbers of a tile's queries that score_gradient() needs, for each of kStages.
template <int kColumns, int kStages>
struct StagedQueries {
  static constexpr int kBytes = kStages * kColumns * 4 * static_cast<int>(sizeof(float));
  std::byte* data;

  // The numbers of an even column and the next: a lane's columns are such pairs (MmaSums), and come in one load.
  struct alignas(8) Pair {
    float at[2];
  };
  [[nodiscard]] __device__ Pair lse(int stage, int column) const { return at<Pair>(0, stage, column / 2); }
  [[nodiscard]] __device__ Pair delta(int stage, int column) const { return at<Pair>(1, stage, column / 2); }
  [[nodiscard]] __device__ KeyRange visible(int stage, int column) const {
    const int first = first_key(stage, column);
    return first < 0 ? KeyRange{0, -1} : KeyRange{first, last_key(stage, column)};
  }
  // Returns true if every query of the stage sees the keys [first, last]. All lanes of a warp call together.
  [[nodiscard]] __device__ bool all_see(int stage, int first, int last) const {
    bool result = true;
#pragma unroll
    for (int column = lane_index(); column < kColumns; column += kWarp) {
      const KeyRange seen = visible(stage, column);
      result = result && seen.has(first) && seen.has(last);
    }
    return __ballot_sync(kAllLanes, result) == kAllLanes;
  }

  // Called by all threads of the block, of which there are at least kColumns; the caller commits the copies.
  template <typename T>
  __device__ void start_loading(const GradProblem<T>& grad, const QueryWalk<kColumns>& walk, int stage) const {
    const int column = static_cast<int>(threadIdx.x), row = walk.query + column;
    if (column >= kColumns) return;
    if (column >= walk.count()) {
      first_key(stage, column) = -1;
      at<float>(0, stage, column) = at<float>(1, stage, column) = 0;
      return;
    }
    const Ranges& ranges = grad.forward.ranges;
    const int64_t of_head = int64_t{row} * grad.forward.heads + walk.head;
    start_word_copy(&first_key(stage, column), ranges.first_key + row);
    if (ranges.last_key == nullptr) {
      last_key(stage, column) = row;
    } else {
      start_word_copy(&last_key(stage, column), ranges.last_key + row);
    }
    start_word_copy(&at<float>(0, stage, column), grad.lse + of_head);
    start_word_copy(&at<float>(1, stage, column), grad.delta + of_head);
  }

 private:
  // Returns element i of one of the four arrays of a stage.
  template <typename T>
  [[nodiscard]] __device__ T& at(int array, int stage, int i) const {
    return reinterpret_cast<T*>(data + (array * kStages + stage) * kColumns * static_cast<int>(sizeof(float)))[i];
  }
  [[nodiscard]] __device__ int& first_key(int stage, int column) const { return at<int>(2, stage, column); }
  [[nodiscard]] __device__ int& last_key(int stage, int column) const { return at<int>(3, stage, column); }
};

}  // namespace spillway::cuda
