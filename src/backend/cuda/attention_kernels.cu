// Bound by f32 arithmetic: 4 T keys S H flops forward, 14 backward (scores and their gradients twice), on the FMA
// units; tensor cores are not used. Not yet measured.
#include "backend/cuda/attention_kernels.h"

#include <cmath>

#include "backend/cuda/attention_tile.cuh"
#include "backend/cuda/launch.cuh"
#include "base/error.h"

namespace spillway::cuda {
namespace {

// The keys [first, last] that a row sees.
struct KeyRange {
  int first, last;
  [[nodiscard]] __device__ bool has(int key) const { return key >= first && key <= last; }
  [[nodiscard]] __device__ bool is_empty() const { return first > last; }
};

template <typename T>
struct Problem {
  int tokens, heads, kv_heads, head_size, window;
  float scale;
  const T *q, *k, *v;
  // Row i sees the keys from first_key[i] to i; ~first_key[i] says the same of a row that is left out. Null where there
  // is a cache.
  const int32_t* first_key;
  CachedKeys cache;

  [[nodiscard]] __device__ int64_t q_pitch() const { return int64_t{heads} * head_size; }
  [[nodiscard]] __device__ int64_t k_pitch() const { return int64_t{kv_heads} * head_size; }
  [[nodiscard]] __device__ int kv_head(int head) const { return head / (heads / kv_heads); }
  [[nodiscard]] __device__ int last_key(int row) const { return first_key == nullptr ? cache.own[row] : row; }
  // Never falls from one row to the next of a segment.
  [[nodiscard]] __device__ int first_key_of(int row) const {
    if (first_key != nullptr) return first_key[row] < 0 ? ~first_key[row] : first_key[row];
    return window > 0 ? std::max(cache.first[row], last_key(row) - window + 1) : cache.first[row];
  }
  // Rows [row, the result) of a tile that ends at `end` walk over their keys together: all, but on a cache only those
  // of one sequence, whose rows of the cache may be anywhere.
  [[nodiscard]] __device__ int segment_end(int row, int end) const {
    if (first_key != nullptr) return end;
    int next = row + 1;
    while (next < end && cache.first[next] == cache.first[row]) ++next;
    return next;
  }
  // A row of a tile that is past the last token is left out, too.
  [[nodiscard]] __device__ bool has(int row) const {
    return row < tokens && (first_key == nullptr || first_key[row] >= 0);
  }
  // Whether some row of a tile is not left out: the same for all threads, of which every one must ask.
  template <int kRows>
  [[nodiscard]] __device__ bool has_any(int first_row) const {
    bool found = false;
    for (int row = lane_index(); row < kRows; row += kWarp) found = found || has(first_row + row);
    return __ballot_sync(kAllLanes, found) != 0;
  }
  // Nothing for a row that is left out.
  [[nodiscard]] __device__ KeyRange keys_of(int row) const {
    return has(row) ? KeyRange{first_key_of(row), last_key(row)} : KeyRange{0, -1};
  }
};

// A thread for each token.
constexpr int kRowThreads = 256;
__global__ void __launch_bounds__(kRowThreads) first_key_kernel(const int32_t* offsets, int sequences, LeftOut left_out,
                                                                int tokens, int window, int32_t* first_key) {
  const int token = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (token >= tokens) return;
  if (token >= offsets[sequences]) {
    first_key[token] = token + 1;  // nothing
    return;
  }
  int low = 0, high = sequences;  // offsets[low] <= token < offsets[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (offsets[middle] <= token ? low : high) = middle;
  }
  const int first = window > 0 ? std::max(offsets[low], token - window + 1) : offsets[low];
  const bool is_out = low < left_out.sequences && offsets[low + 1] - offsets[low] <= left_out.longest;
  first_key[token] = is_out ? ~first : first;
}

// delta = sum over a head of d_o * o: a warp for each row of [tokens * heads].
template <typename T>
__global__ void __launch_bounds__(kRowThreads) delta_kernel(Problem<T> p, const T* o, const T* d_o, float* delta) {
  constexpr int kWidth = kVector<T>;
  const int64_t row = int64_t{blockIdx.x} * (kRowThreads / kWarp) + warp_index();
  if (row >= int64_t{p.tokens} * p.heads || !p.has(static_cast<int>(row / p.heads))) return;
  const int head_size = p.head_size;
  float sum = 0;
  for_each_vector<kWidth>(head_size, lane_index(), kWarp, [&](Span<kWidth> span) {
    const Floats<kWidth> a = load(o + row * head_size, span), b = load(d_o + row * head_size, span);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum += a[i] * b[i];
  });
  sum = warp_reduce(sum, Sum());
  if (lane_index() == 0) delta[row] = sum;
}

// The tiles of both passes, so that every GPU's shared memory holds them.
template <int kHead>
struct Forward {
  static constexpr int kRows = kHead <= 128 ? 64 : 32, kKeys = kHead <= 64 ? 64 : kHead <= 128 ? 32 : 16;
  using Queries = Tile<kRows, kHead>;
  using Keys = Tile<kKeys, kHead>;
  using Weights = Tile<kRows, kKeys>;
  static constexpr int kSharedBytes = Queries::kBytes + 2 * Keys::kBytes + Weights::kBytes;
};
template <int kHead>
struct Backward {
  static constexpr int kRows = kHead <= 128 ? 32 : 16;
  using Rows = Tile<kRows, kHead>;  // of queries and of keys
  using Weights = Tile<kRows, kRows>;
  static constexpr int kSharedBytes = 4 * Rows::kBytes + 2 * Weights::kBytes;
};

// The softmax of the thread's rows, over the keys that they have met.
template <int kRows>
struct Softmax {
  KeyRange visible[kRows];
  float maximum[kRows], total[kRows];  // total: of exp(scale * score - maximum)

  template <typename T>
  __device__ Softmax(const Problem<T>& p, int first_row) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      visible[i] = p.keys_of(first_row + thread_y() + i * kSide);
      maximum[i] = kNothing;
      total[i] = 0;
    }
  }

  // Scores of a tile of keys become weights; what was summed up before is scaled to the new maxima.
  template <typename Scores, typename Weights, typename Sums>
  __device__ void add(Scores& scores, int first_key, float scale, Weights weights, Sums& sums) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float largest = kNothing;
#pragma unroll
      for (int j = 0; j < Scores::kColumns; ++j) {
        float& score = scores.at[i][j];
        score = visible[i].has(first_key + thread_x() + j * kSide) ? score * scale : kNothing;
        largest = fmaxf(largest, score);
      }
      largest = fmaxf(maximum[i], row_reduce(largest, Max()));
      float sum = 0;
#pragma unroll
      for (int j = 0; j < Scores::kColumns; ++j) {
        const float weight = largest == kNothing ? 0.0f : expf(scores.at[i][j] - largest);
        weights.at(thread_y() + i * kSide, thread_x() + j * kSide) = weight;
        sum += weight;
      }
      const float factor = largest == kNothing ? 1.0f : expf(maximum[i] - largest);
      total[i] = total[i] * factor + row_reduce(sum, Sum());
      maximum[i] = largest;
      sums.scale(i, factor);
    }
  }
};

// A block for each tile of queries and each head; the tiles that see most come first.
template <int kHead, typename T>
__global__ void __launch_bounds__(kTileThreads) forward_kernel(Problem<T> p, T* o, float* lse) {
  using Sizes = Forward<kHead>;
  constexpr int kRows = Sizes::kRows, kKeys = Sizes::kKeys, kMine = kRows / kSide;
  SharedTiles shared;
  const auto queries = shared.take<typename Sizes::Queries>();
  const auto keys = shared.take<typename Sizes::Keys>(), values = shared.take<typename Sizes::Keys>();
  const auto weights = shared.take<typename Sizes::Weights>();
  const int head = static_cast<int>(blockIdx.x) % p.heads, tiles = div_ceil(p.tokens, kRows);
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) / p.heads) * kRows;
  const int rows = std::min(kRows, p.tokens - first);
  if (!p.template has_any<kRows>(first)) return;
  const int64_t q_at = first * p.q_pitch() + head * p.head_size;
  load_tile(p.q + q_at, p.q_pitch(), rows, p.head_size, queries);

  Features<typename Sizes::Queries> sums = {};
  Softmax<kMine> softmax(p, first);
  for (int segment = first; segment < first + rows;) {
    const int next = p.segment_end(segment, first + rows), end = p.last_key(next - 1) + 1;
    for (int key = p.first_key_of(segment) / kKeys * kKeys; key < end; key += kKeys) {
      __syncthreads();
      const int64_t at = key * p.k_pitch() + p.kv_head(head) * p.head_size;
      const int count = std::min(kKeys, end - key);
      load_tile(p.k + at, p.k_pitch(), count, p.head_size, keys);
      load_tile(p.v + at, p.k_pitch(), count, p.head_size, values);
      __syncthreads();
      auto scores = multiply(queries, keys);
      softmax.add(scores, key, p.scale, weights, sums);
      __syncwarp();  // a row's weights are written and read by one warp
      sums.add_product(weights, values);
    }
    segment = next;
  }

#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int row = thread_y() + i * kSide;
    const float total = softmax.total[i];
    sums.scale(i, total > 0 ? 1 / total : 0.0f);
    if (lse == nullptr || !p.has(first + row) || thread_x() > 0) continue;
    lse[int64_t{first + row} * p.heads + head] = total > 0 ? softmax.maximum[i] + logf(total) : 0.0f;
  }
  sums.store_to(o + q_at, p.q_pitch(), p.head_size, [&](int row) { return p.has(first + row); });
}

// From scores = q k' and products = d_o v' the softmax's weight and the gradient of the score.
struct ScoreGradient {
  float weight, gradient;
};
struct RowSums {
  float lse, delta;
};
__device__ inline ScoreGradient score_gradient(bool visible, float score, float product, float scale, RowSums row) {
  if (!visible) return {0, 0};
  const float weight = expf(score * scale - row.lse);
  return {weight, weight * (product - row.delta) * scale};
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

// A block for each tile of queries and each head.
template <int kHead, typename T>
__global__ void __launch_bounds__(kTileThreads, 2) query_grad_kernel(GradProblem<T> grad) {
  using Sizes = Backward<kHead>;
  constexpr int kRows = Sizes::kRows;
  const Problem<T>& p = grad.forward;
  SharedTiles shared;
  const auto queries = shared.take<typename Sizes::Rows>(), d_outputs = shared.take<typename Sizes::Rows>();
  const auto keys = shared.take<typename Sizes::Rows>(), values = shared.take<typename Sizes::Rows>();
  const auto gradients = shared.take<typename Sizes::Weights>();
  const int head = static_cast<int>(blockIdx.x) % p.heads, tiles = div_ceil(p.tokens, kRows);
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) / p.heads) * kRows;
  const int rows = std::min(kRows, p.tokens - first);
  if (!p.template has_any<kRows>(first)) return;
  const int64_t q_at = first * p.q_pitch() + head * p.head_size;
  load_tile(p.q + q_at, p.q_pitch(), rows, p.head_size, queries);
  load_tile(grad.d_o + q_at, p.q_pitch(), rows, p.head_size, d_outputs);

  Features<typename Sizes::Rows> sums = {};
  const int end = first + rows;
  for (int key = p.first_key_of(first) / kRows * kRows; key < end; key += kRows) {
    __syncthreads();
    const int64_t at = key * p.k_pitch() + p.kv_head(head) * p.head_size;
    const int count = std::min(kRows, end - key);
    load_tile(p.k + at, p.k_pitch(), count, p.head_size, keys);
    load_tile(p.v + at, p.k_pitch(), count, p.head_size, values);
    __syncthreads();
    const auto scores = multiply(queries, keys), products = multiply(d_outputs, values);
#pragma unroll
    for (int i = 0; i < scores.kRows; ++i) {
      const int row = first + thread_y() + i * kSide;
      const KeyRange visible = p.keys_of(row);
      const RowSums of_row = grad.sums_of(row, head, visible);
#pragma unroll
      for (int j = 0; j < scores.kColumns; ++j) {
        const int column = thread_x() + j * kSide;
        gradients.at(thread_y() + i * kSide, column) =
            score_gradient(visible.has(key + column), scores.at[i][j], products.at[i][j], p.scale, of_row).gradient;
      }
    }
    __syncwarp();
    sums.add_product(gradients, keys);
  }
  sums.store_to(grad.dq + q_at, p.q_pitch(), p.head_size, [&](int row) { return p.has(first + row); });
}

// A block for each tile of keys and each key head; it goes through the query heads of the group, and through the tiles
// of queries that may see its keys. Here rows are keys, and columns are queries.
template <int kHead, typename T>
__global__ void __launch_bounds__(kTileThreads, 2) key_grad_kernel(GradProblem<T> grad) {
  using Sizes = Backward<kHead>;
  constexpr int kRows = Sizes::kRows;
  const Problem<T>& p = grad.forward;
  SharedTiles shared;
  const auto keys = shared.take<typename Sizes::Rows>(), values = shared.take<typename Sizes::Rows>();
  const auto queries = shared.take<typename Sizes::Rows>(), d_outputs = shared.take<typename Sizes::Rows>();
  const auto weights = shared.take<typename Sizes::Weights>(), gradients = shared.take<typename Sizes::Weights>();
  const int kv_head = static_cast<int>(blockIdx.x) % p.kv_heads, group = p.heads / p.kv_heads;
  const int first = static_cast<int>(blockIdx.x) / p.kv_heads * kRows;
  const int rows = std::min(kRows, p.tokens - first);
  if (!p.template has_any<kRows>(first)) return;
  const int64_t k_at = first * p.k_pitch() + kv_head * p.head_size;
  load_tile(p.k + k_at, p.k_pitch(), rows, p.head_size, keys);
  load_tile(p.v + k_at, p.k_pitch(), rows, p.head_size, values);

  Features<typename Sizes::Rows> dk = {}, dv = {};
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int query = first; query < p.tokens && p.first_key_of(query) < first + rows; query += kRows) {
      __syncthreads();
      const int64_t at = query * p.q_pitch() + head * p.head_size;
      const int count = std::min(kRows, p.tokens - query);
      load_tile(p.q + at, p.q_pitch(), count, p.head_size, queries);
      load_tile(grad.d_o + at, p.q_pitch(), count, p.head_size, d_outputs);
      __syncthreads();
      const auto scores = multiply(keys, queries), products = multiply(values, d_outputs);
#pragma unroll
      for (int j = 0; j < scores.kColumns; ++j) {
        const int column = thread_x() + j * kSide, row = query + column;
        const KeyRange visible = p.keys_of(row);
        const RowSums of_row = grad.sums_of(row, head, visible);
#pragma unroll
        for (int i = 0; i < scores.kRows; ++i) {
          const int key = thread_y() + i * kSide;
          const ScoreGradient of_score =
              score_gradient(visible.has(first + key), scores.at[i][j], products.at[i][j], p.scale, of_row);
          weights.at(key, column) = of_score.weight;
          gradients.at(key, column) = of_score.gradient;
        }
      }
      __syncwarp();
      dv.add_product(weights, d_outputs);
      dk.add_product(gradients, queries);
    }
  }
  const auto has_row = [&](int row) { return p.has(first + row); };
  dk.store_to(grad.dk + k_at, p.k_pitch(), p.head_size, has_row);
  dv.store_to(grad.dv + k_at, p.k_pitch(), p.head_size, has_row);
}

// Calls f(the padded head size as a constant, a null T*).
template <typename Function>
void with_head(const AttentionArgs& args, const Function& f) {
  const auto with_type = [&]<typename T>(T* type) {
    if (args.head_size <= 64) return f(std::integral_constant<int, 64>(), type);
    if (args.head_size <= 128) return f(std::integral_constant<int, 128>(), type);
    return f(std::integral_constant<int, 256>(), type);
  };
  expect_head_fits(args.head_size);
  if (args.dtype == DType::kBF16) {
    with_type(static_cast<bf16*>(nullptr));
  } else {
    with_type(static_cast<float*>(nullptr));
  }
}

template <typename T>
Problem<T> problem_of(const AttentionArgs& args, const int32_t* first_key, const CachedKeys& cache) {
  return {.tokens = narrow<int>(args.tokens),
          .heads = narrow<int>(args.heads),
          .kv_heads = narrow<int>(args.kv_heads),
          .head_size = narrow<int>(args.head_size),
          .window = narrow<int>(args.window),
          .scale = args.scale,
          .q = static_cast<const T*>(args.q),
          .k = static_cast<const T*>(args.k),
          .v = static_cast<const T*>(args.v),
          .first_key = first_key,
          .cache = cache};
}

void forward(const AttentionArgs& args, const int32_t* first_key, const CachedKeys& cache, void* stream) {
  with_head(args, [&]<typename T>(auto head, T*) {
    using Sizes = Forward<head>;
    launch(forward_kernel<head, T>,
           {div_ceil(args.tokens, Sizes::kRows) * args.heads, kTileThreads, Sizes::kSharedBytes}, stream,
           problem_of<T>(args, first_key, cache), static_cast<T*>(args.o), args.lse);
  });
}

void find_first_keys(const AttentionArgs& args, const Sequences& sequences, int32_t* first_key, void* stream) {
  launch(first_key_kernel, {div_ceil(args.tokens, kRowThreads), kRowThreads}, stream, sequences.offsets,
         narrow<int>(sequences.count), sequences.left_out, narrow<int>(args.tokens), narrow<int>(args.window),
         first_key);
}

}  // namespace

void expect_head_fits(int64_t head_size) {
  if (head_size <= kMaxAttentionHead) return;
  throw input_error("attention", "expected a head size of at most {} on the GPU, got {}; use device: cpu",
                    kMaxAttentionHead, head_size);
}

void attention_forward(const AttentionArgs& args, const Sequences& sequences, std::byte* workspace, void* stream) {
  auto* first_key = reinterpret_cast<int32_t*>(workspace);
  find_first_keys(args, sequences, first_key, stream);
  forward(args, first_key, {}, stream);
}

void attention_on_cache(const AttentionArgs& args, const CachedKeys& cache, void* stream) {
  forward(args, nullptr, cache, stream);
}

void attention_backward(const AttentionGradArgs& args, const Sequences& sequences, std::byte* workspace, void* stream) {
  const AttentionArgs& forward = args.forward;
  auto* first_key = reinterpret_cast<int32_t*>(workspace);
  auto* delta = reinterpret_cast<float*>(workspace + AttentionWorkspace(forward.tokens, forward.heads).delta);
  find_first_keys(forward, sequences, first_key, stream);
  with_head(forward, [&]<typename T>(auto head, T*) {
    using Sizes = Backward<head>;
    const int64_t rows = forward.tokens * forward.heads, tiles = div_ceil(forward.tokens, Sizes::kRows);
    const Problem<T> problem = problem_of<T>(forward, first_key, {});
    launch(delta_kernel<T>, {div_ceil(rows, kRowThreads / kWarp), kRowThreads}, stream, problem,
           static_cast<const T*>(forward.o), static_cast<const T*>(args.d_o), delta);
    const GradProblem<T> grad{.forward = problem,
                              .d_o = static_cast<const T*>(args.d_o),
                              .lse = forward.lse,
                              .delta = delta,
                              .dq = static_cast<T*>(args.dq),
                              .dk = static_cast<T*>(args.dk),
                              .dv = static_cast<T*>(args.dv)};
    launch(query_grad_kernel<head, T>, {tiles * forward.heads, kTileThreads, Sizes::kSharedBytes}, stream, grad);
    launch(key_grad_kernel<head, T>, {tiles * forward.kv_heads, kTileThreads, Sizes::kSharedBytes}, stream, grad);
  });
}

}  // namespace spillway::cuda
