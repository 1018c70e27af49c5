// The kernels are bound by f32 arithmetic: 4 T keys S H flops forward, 14 backward (scores and their gradients twice),
// on the FMA units; tensor cores are not used. Not yet measured.
#include "ops/attention/cuda/kernels.h"

#include "backend/cuda/launch.cuh"
#include "base/error.h"
#include "ops/attention/cuda/problem.cuh"
#include "ops/attention/cuda/tensor_cores.h"
#include "ops/attention/cuda/tile.cuh"
#include "ops/attention/cuda/warpgroups.h"

namespace spillway::cuda {
namespace {

// Returns the sequence of a token: offsets[sequence] <= token < offsets[sequence + 1]. REQUIRES: it is before the last
// offset.
__device__ inline int sequence_of(int token, const int32_t* offsets, int sequences) {
  int low = 0, high = sequences;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (offsets[middle] <= token ? low : high) = middle;
  }
  return low;
}

// Uses a thread for each token.
constexpr int kRowThreads = 256;
__global__ void __launch_bounds__(kRowThreads) first_key_kernel(const int32_t* offsets, int sequences, LeftOut left_out,
                                                                int tokens, int window, int32_t* first_key) {
  const int token = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (token >= tokens) return;
  if (token >= offsets[sequences]) {
    first_key[token] = token + 1;  // nothing
    return;
  }
  const int low = sequence_of(token, offsets, sequences);
  const int first = ops::first_key_seen(token, offsets[low], window);
  const bool is_out = low < left_out.sequences && offsets[low + 1] - offsets[low] <= left_out.longest;
  first_key[token] = is_out ? ~first : first;
}

// Finds the elements of the other stream that each element of a stream is paired with: all of its sequence. Uses a
// thread for each.
struct Pairing {
  const int32_t *offsets, *other_offsets;
  int sequences, count;
  int longest, longest_of_others, left_out;  // see LeftOut
};
__global__ void __launch_bounds__(kRowThreads) pair_kernel(Pairing pairing, int32_t* first, int32_t* last) {
  const int i = static_cast<int>(blockIdx.x) * kRowThreads + static_cast<int>(threadIdx.x);
  if (i >= pairing.count) return;
  if (i >= pairing.offsets[pairing.sequences]) {
    first[i] = pairing.other_offsets[pairing.sequences];  // nothing
    last[i] = first[i] - 1;
    return;
  }
  const int sequence = sequence_of(i, pairing.offsets, pairing.sequences);
  const int begin = pairing.other_offsets[sequence], end = pairing.other_offsets[sequence + 1];
  const int own = pairing.offsets[sequence + 1] - pairing.offsets[sequence];
  const bool is_out =
      sequence < pairing.left_out && own <= pairing.longest && begin < end && end - begin <= pairing.longest_of_others;
  first[i] = is_out ? ~begin : begin;
  last[i] = end - 1;
}

// Computes delta = sum over a head of d_o * o, with a warp for each row of [tokens * heads].
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

// Computes the gradients of the sinks, with a block for each head.
template <typename T, typename Sink>
__global__ void __launch_bounds__(kRowThreads)
    sink_grad_kernel(Problem<T> p, const float* lse, const float* delta, Sink* d_sinks) {
  const int head = static_cast<int>(blockIdx.x);
  float sum = 0;
  for (int row = static_cast<int>(threadIdx.x); row < p.tokens; row += kRowThreads) {
    if (p.keys_of(row).is_empty()) continue;  // which has no weights but its sink's
    const int64_t at = int64_t{row} * p.heads + head;
    sum += p.sinks.gradient(head, lse[at], delta[at]);
  }
  sum = block_sum<kRowThreads>(sum);
  if (threadIdx.x == 0) d_sinks[head] = from_float<Sink>(sum);
}

// The tiles of both passes, sized so that every GPU's shared memory holds them.
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
  float maximum[kRows], total[kRows];  // total: of exp(score - maximum)

  template <typename T>
  __device__ Softmax(const Problem<T>& p, int first_row, int head) {
    const SoftmaxState start = p.sinks.start(head);
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      visible[i] = p.keys_of(first_row + thread_y() + i * kSide);
      maximum[i] = start.maximum;
      total[i] = start.sum;
    }
  }

  // Turns products with a tile of keys into weights; scales earlier sums to the new maxima.
  template <bool kCapped, typename Scores, typename Weights, typename Sums>
  __device__ void add(Scores& scores, int first_key, ScoreMap map, Weights weights, Sums& sums) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float largest = kNothing;
#pragma unroll
      for (int j = 0; j < Scores::kColumns; ++j) {
        float& score = scores.at[i][j];
        score = visible[i].has(first_key + thread_x() + j * kSide) ? score_of<kCapped>(score, map) : kNothing;
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

// Uses a block for each tile of queries and each head; the tiles that see most come first.
template <int kHead, bool kCapped, typename T>
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
  if (!has_any<kRows>(first, [&](int row) { return p.has(row); })) return;
  const int64_t q_at = first * p.q_pitch() + head * p.head_size;
  load_tile(p.q + q_at, p.q_pitch(), rows, p.head_size, queries);

  Features<typename Sizes::Queries> sums = {};
  Softmax<kMine> softmax(p, first, head);
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
      softmax.template add<kCapped>(scores, key, p.map, weights, sums);
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

// Uses a block for each tile of queries and each head.
template <int kHead, bool kCapped, typename T>
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
  if (!has_any<kRows>(first, [&](int row) { return p.has(row); })) return;
  const int64_t q_at = first * p.q_pitch() + head * p.head_size;
  load_tile(p.q + q_at, p.q_pitch(), rows, p.head_size, queries);
  load_tile(grad.d_o + q_at, p.q_pitch(), rows, p.head_size, d_outputs);

  Features<typename Sizes::Rows> sums = {};
  const int end = p.last_key(first + rows - 1) + 1;
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
            score_gradient<kCapped>(visible.has(key + column), scores.at[i][j], products.at[i][j], p.map, of_row)
                .gradient;
      }
    }
    __syncwarp();
    sums.add_product(gradients, keys);
  }
  sums.store_to(grad.dq + q_at, p.q_pitch(), p.head_size, [&](int row) { return p.has(first + row); });
}

// Uses a block for each tile of keys and each key head; it goes through the query heads of the group, and through the
// tiles of queries that may see its keys. Here rows are keys, and columns are queries.
template <int kHead, bool kCapped, typename T>
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
  const int rows = std::min(kRows, p.key_tokens - first), query_end = p.row_end_of(first + rows - 1);
  if (!has_any<kRows>(first, [&](int row) { return p.has_key(row); })) return;
  const int64_t k_at = first * p.k_pitch() + kv_head * p.head_size;
  load_tile(p.k + k_at, p.k_pitch(), rows, p.head_size, keys);
  load_tile(p.v + k_at, p.k_pitch(), rows, p.head_size, values);

  Features<typename Sizes::Rows> dk = {}, dv = {};
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int query = p.first_row_of(first); query < query_end && p.first_key_of(query) < first + rows; query += kRows) {
      __syncthreads();
      const int64_t at = query * p.q_pitch() + head * p.head_size;
      const int count = std::min(kRows, query_end - query);
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
              score_gradient<kCapped>(visible.has(first + key), scores.at[i][j], products.at[i][j], p.map, of_row);
          weights.at(key, column) = of_score.weight;
          gradients.at(key, column) = of_score.gradient;
        }
      }
      __syncwarp();
      dv.add_product(weights, d_outputs);
      dk.add_product(gradients, queries);
    }
  }
  const auto has_row = [&](int row) { return p.has_key(first + row); };
  dk.store_to(grad.dk + k_at, p.k_pitch(), p.head_size, has_row);
  dv.store_to(grad.dv + k_at, p.k_pitch(), p.head_size, has_row);
}

// Calls f(the padded head size as a constant, whether scores are capped as one, a null T*).
template <typename Function>
void with_head(const AttentionArgs& args, const Function& f) {
  expect_head_fits(args.head_size);
  with_attention_head(args, [&](auto size, auto capped) {
    if (args.dtype == DType::kBF16) return f(size, capped, static_cast<bf16*>(nullptr));
    f(size, capped, static_cast<float*>(nullptr));
  });
}

void forward(const AttentionArgs& args, const Ranges& ranges, void* stream) {
  with_head(args, [&]<typename T>(auto head, auto capped, T*) {
    using Sizes = Forward<head>;
    const Problem<T> problem = problem_of<T>(args, ranges);
    if constexpr (std::is_same_v<T, bf16>) {
      if (takes_tensor_cores(args)) return launch_tensor_core_forward(args, problem, stream);
    }
    launch(forward_kernel<head, capped, T>,
           {div_ceil(args.tokens, Sizes::kRows) * args.heads, kTileThreads, Sizes::kSharedBytes}, stream, problem,
           static_cast<T*>(args.o), args.lse);
  });
}

template <typename T>
void launch_sink_gradients(const AttentionGradArgs& args, const Problem<T>& problem, const float* delta, void* stream) {
  const Grid heads{args.forward.heads, kRowThreads};
  const float* const lse = args.forward.lse;
  if (args.d_sinks_dtype == DType::kF32)
    return launch(sink_grad_kernel<T, float>, heads, stream, problem, lse, delta, static_cast<float*>(args.d_sinks));
  launch(sink_grad_kernel<T, bf16>, heads, stream, problem, lse, delta, static_cast<bf16*>(args.d_sinks));
}

// `by_key` asks for the ranges of rows that see a key, which the forward pass does not need.
Ranges find_ranges(const AttentionArgs& args, const LeftOut& out, std::byte* workspace, bool by_key, void* stream) {
  const AttentionWorkspace layout(args.tokens, args.heads, args.is_causal, args.key_rows());
  const auto at = [&](int64_t offset) { return reinterpret_cast<int32_t*>(workspace + offset); };
  const int count = narrow<int>(args.sequences);
  const Grid rows{div_ceil(args.tokens, kRowThreads), kRowThreads},
      keys{div_ceil(args.key_rows(), kRowThreads), kRowThreads};
  if (args.is_causal) {
    launch(first_key_kernel, rows, stream, args.seq_offsets, count, out, narrow<int>(args.tokens),
           narrow<int>(args.window), at(0));
    return {.first_key = at(0)};
  }
  const Pairing of_rows{args.seq_offsets, args.offsets_of_keys(), count,        narrow<int>(args.tokens),
                        out.longest,      out.longest_keys,       out.sequences};
  launch(pair_kernel, rows, stream, of_rows, at(0), at(layout.last_key));
  if (!by_key) return {.first_key = at(0), .last_key = at(layout.last_key)};
  const Pairing of_keys{args.offsets_of_keys(), args.seq_offsets, count,        narrow<int>(args.key_rows()),
                        out.longest_keys,       out.longest,      out.sequences};
  launch(pair_kernel, keys, stream, of_keys, at(layout.first_row), at(layout.last_row));
  return {at(0), at(layout.last_key), at(layout.first_row), at(layout.last_row)};
}

}  // namespace

void expect_head_fits(int64_t head_size) {
  if (head_size <= kMaxAttentionHead) return;
  throw input_error("attention", "expected a head size of at most {} on the GPU, got {}; use device: cpu",
                    kMaxAttentionHead, head_size);
}

void attention_forward(const AttentionArgs& args, const LeftOut& left_out, std::byte* workspace, void* stream) {
  forward(args, find_ranges(args, left_out, workspace, false, stream), stream);
}

void attention_on_cache(const AttentionArgs& args, void* stream) { forward(args, {}, stream); }

void attention_backward(const AttentionGradArgs& args, const LeftOut& left_out, std::byte* workspace, void* stream) {
  const AttentionArgs& forward = args.forward;
  const AttentionWorkspace layout(forward.tokens, forward.heads, forward.is_causal, forward.key_rows());
  auto* delta = reinterpret_cast<float*>(workspace + layout.delta);
  const Ranges ranges = find_ranges(forward, left_out, workspace, true, stream);
  with_head(forward, [&]<typename T>(auto head, auto capped, T*) {
    using Sizes = Backward<head>;
    const int64_t rows = forward.tokens * forward.heads, tiles = div_ceil(forward.tokens, Sizes::kRows);
    const int64_t key_tiles = div_ceil(forward.key_rows(), Sizes::kRows);
    const Problem<T> problem = problem_of<T>(forward, ranges);
    launch(delta_kernel<T>, {div_ceil(rows, kRowThreads / kWarp), kRowThreads}, stream, problem,
           static_cast<const T*>(forward.o), static_cast<const T*>(args.d_o), delta);
    if (args.d_sinks != nullptr) launch_sink_gradients(args, problem, delta, stream);
    const GradProblem<T> grad{.forward = problem,
                              .d_o = static_cast<const T*>(args.d_o),
                              .lse = forward.lse,
                              .delta = delta,
                              .dq = static_cast<T*>(args.dq),
                              .dk = static_cast<T*>(args.dk),
                              .dv = static_cast<T*>(args.dv)};
    if constexpr (std::is_same_v<T, bf16>) {
      if (takes_warpgroups(forward)) return launch_warpgroup_gradients(forward, grad, stream);
      if (takes_tensor_cores(forward)) return launch_tensor_core_gradients(forward, grad, stream);
    }
    launch(query_grad_kernel<head, capped, T>, {tiles * forward.heads, kTileThreads, Sizes::kSharedBytes}, stream,
           grad);
    launch(key_grad_kernel<head, capped, T>, {key_tiles * forward.kv_heads, kTileThreads, Sizes::kSharedBytes}, stream,
           grad);
  });
}

}  // namespace spillway::cuda
