// In bf16 the heads that share keys are the rows of products on tensor cores, so that a block reads its keys and values
// once for all of them. In f32, and where a head is not whole pieces of 16 bytes, each head reads them by itself, all
// but the first from the cache.
#include "ops/attention/cuda/decode.h"

#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "ops/attention/cuda/mma.cuh"
#include "ops/attention/cuda/tensor_cores.h"

namespace spillway::cuda {
namespace {

constexpr int kDecodeThreads = 128;
// In f32, a team of lanes takes one key after another, each lane with its share of the head.
constexpr int kTeam = 8, kTeams = kDecodeThreads / kTeam;

struct KeySpan {
  int begin, end;
};

template <typename T>
struct Decode {
  Problem<T> problem;
  T* o;
  float* parts;

  // The number of parts that a token has, and of keys in a part.
  struct Cut {
    int parts, keys;
  };
  [[nodiscard]] __device__ Cut cut_of(int token) const {
    constexpr int kKeys = DecodeParts::kKeys, kAllParts = DecodeParts::kMaxParts * kKeys;
    const int count = problem.last_key(token) + 1 - problem.first_key_of(token);
    const int keys = (count + kAllParts - 1) / kAllParts * kKeys;
    return {(count + keys - 1) / keys, keys};
  }
  [[nodiscard]] __device__ KeySpan span_of(int token, Cut cut, int part) const {
    const int begin = problem.first_key_of(token) + part * cut.keys, end = problem.last_key(token) + 1;
    return {begin, at_most(end, begin + cut.keys)};
  }
  // Returns the index of a part of a head of a token; state() has its maximum and its sum, values() its weighted
  // values.
  [[nodiscard]] __device__ int64_t index(int64_t row, int part) const { return row * DecodeParts::kMaxParts + part; }
  [[nodiscard]] __device__ float* state(int64_t index) const { return parts + 2 * index; }
  [[nodiscard]] __device__ float* values(int64_t index) const {
    const int64_t all = int64_t{problem.tokens} * problem.heads * DecodeParts::kMaxParts;
    return parts + 2 * all + index * problem.head_size;
  }
};

// Returns exp(maximum - to); 0 for the maximum of an empty part.
__device__ float factor_between(float maximum, float to) { return maximum == kNothing ? 0.0f : expf(maximum - to); }

// Loads a lane's share of a head in vectors: kChunks of them, kTeam vectors apart.
template <int kChunks, int kWidth, typename T>
__device__ void load_share(const T* head, int size, bool wanted, Floats<kWidth> (&share)[kChunks]) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * kTeam + lane_index() % kTeam) * kWidth;
    share[c] = {};
    if (wanted && column < size) share[c] = load(head, span_at<kWidth>(column, size));
  }
}

// Uses a block for each part of each head of each token; the last parts, which few tokens have, come last.
template <int kHead, bool kCapped, typename T>
__global__ void __launch_bounds__(kDecodeThreads) head_part_kernel(Decode<T> d) {
  constexpr int kWidth = kVector<T>, kChunks = kHead / (kTeam * kWidth);
  const Problem<T>& p = d.problem;
  const int rows = p.tokens * p.heads;
  const int part = static_cast<int>(blockIdx.x) / rows, row = static_cast<int>(blockIdx.x) % rows;
  const int token = row / p.heads, head = row % p.heads, size = p.head_size;
  const auto cut = d.cut_of(token);
  if (part >= cut.parts) return;
  const KeySpan span = d.span_of(token, cut, part);
  const int team = static_cast<int>(threadIdx.x) / kTeam;
  const int64_t kv_offset = int64_t{p.kv_head(head)} * size;

  Floats<kWidth> query[kChunks], sums[kChunks] = {}, key[kChunks], value[kChunks];
  load_share(p.q + int64_t{row} * size, size, true, query);
  float maximum = kNothing, total = 0;
  for (int base = span.begin; base < span.end; base += kTeams) {
    const bool wanted = base + team < span.end;
    const int64_t at = (base + team) * p.k_pitch() + kv_offset;
    load_share(p.k + at, size, wanted, key);
    load_share(p.v + at, size, wanted, value);
    float product = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) product += query[c][i] * key[c][i];
    }
    product = warp_reduce<kTeam>(product, Sum());
    if (!wanted) continue;
    const float score = score_of<kCapped>(product, p.map);
    const float next = fmaxf(maximum, score), factor = factor_between(maximum, next), weight = expf(score - next);
    maximum = next;
    total = total * factor + weight;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sums[c][i] = sums[c][i] * factor + weight * value[c][i];
    }
  }

  __shared__ float maxima[kTeams], totals[kTeams];
  auto* of_teams = reinterpret_cast<float*>(dynamic_shared());  // [kTeams, size]
  if (lane_index() % kTeam == 0) {
    maxima[team] = maximum;
    totals[team] = total;
  }
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const int column = (c * kTeam + lane_index() % kTeam) * kWidth;
    if (column < size) store(sums[c], of_teams + team * size, span_at<kWidth>(column, size));
  }
  __syncthreads();
  float largest = kNothing;
  for (int t = 0; t < kTeams; ++t) largest = fmaxf(largest, maxima[t]);
  const int64_t index = d.index(row, part);
  for (int column = static_cast<int>(threadIdx.x); column < size; column += kDecodeThreads) {
    float sum = 0;
    for (int t = 0; t < kTeams; ++t) sum += factor_between(maxima[t], largest) * of_teams[t * size + column];
    d.values(index)[column] = sum;
  }
  if (threadIdx.x > 0) return;
  float sum = 0;
  for (int t = 0; t < kTeams; ++t) sum += factor_between(maxima[t], largest) * totals[t];
  d.state(index)[0] = largest;
  d.state(index)[1] = sum;
}

// Walks over the tiles of a part's keys, one after another.
struct SpanWalk {
  int key, end;
  [[nodiscard]] __device__ bool is_done() const { return key >= end; }
  __device__ void advance() { key += DecodeParts::kKeys; }
  [[nodiscard]] __device__ int count() const { return at_most(DecodeParts::kKeys, end - key); }
};

// The tiles of up to kMmaRows heads that share keys, as the rows of products; of each tile a warp has kMmaDepth keys.
template <int kHead>
struct DecodeTiles {
  static_assert(DecodeParts::kKeys == kMmaWarps * kMmaDepth && kDecodeThreads == kMmaThreads);
  using Heads = MmaTile<kMmaRows, kHead>;
  using Keys = MmaTile<DecodeParts::kKeys, kHead>;
  static constexpr int kTileBytes = Heads::kBytes + 2 * Keys::kBytes;
  // After the last tile the warps' sums lie where tiles lay.
  static constexpr int kSumBytes = kMmaWarps * kMmaRows * kHead * static_cast<int>(sizeof(float));
  static constexpr int kSharedBytes = kTileBytes > kSumBytes ? kTileBytes : kSumBytes;
};

// The results of a warp's keys: for a lane's two rows the maximum, the sum of weights, and the weighted values.
template <int kHead>
class WarpPart {
 public:
  using Tiles = DecodeTiles<kHead>;
  float maximum[2] = {kNothing, kNothing}, total[2] = {0, 0};
  MmaHeadSums<kHead> sums;

  // Adds a tile of `count` keys.
  template <bool kCapped>
  __device__ void add(const typename Tiles::Heads& heads, const typename Tiles::Keys& keys,
                      const typename Tiles::Keys& values, int count, ScoreMap map) {
    const int first = warp_index() * kMmaDepth;
    Scores scores;
#pragma unroll
    for (int depth = 0; depth < kHead; depth += kMmaDepth) {
      MmaRight right[kParts];
      keys.right_of_rows(first, depth, right);
      const MmaLeft left = heads.left(0, depth);
#pragma unroll
      for (int part = 0; part < kParts; ++part) multiply_add(scores.at[part], left, right[part]);
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) weigh<kCapped>(scores, row, count - first, map);
    const MmaLeft weights = as_left(scores.at[0], scores.at[1]);
#pragma unroll
    for (int column = 0; column < MmaHeadSums<kHead>::kParts; column += 2) {
      MmaRight right[2];
      values.right_of_columns(first, column * kMmaColumns, right);
      multiply_add(sums.at[column], weights, right[0]);
      multiply_add(sums.at[column + 1], weights, right[1]);
    }
  }

 private:
  static constexpr int kParts = kMmaDepth / kMmaColumns;
  struct Scores {
    MmaSums at[kParts];

    // Calls f(score, its key within the warp's) for each score of a row.
    template <typename Function>
    __device__ void for_each_of(int row, const Function& f) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 2 * row; i < 2 * row + 2; ++i) f(at[part].at[i], part * kMmaColumns + MmaSums::column(i));
      }
    }
  };

  // Turns products of a row into weights, and scales earlier sums to the new maximum.
  template <bool kCapped>
  __device__ void weigh(Scores& scores, int row, int count, ScoreMap map) {
    float largest = maximum[row], sum = 0;
    scores.for_each_of(row, [&](float& score, int key) {
      score = key < count ? score_of<kCapped>(score, map) : kNothing;
      largest = fmaxf(largest, score);
    });
    largest = warp_reduce<4>(largest, Max());
    scores.for_each_of(row, [&](float& score, int) {
      score = factor_between(score, largest);
      sum += score;
    });
    const float factor = factor_between(maximum[row], largest);
    total[row] = total[row] * factor + warp_reduce<4>(sum, Sum());
    maximum[row] = largest;
    sums.scale_row(row, factor);
  }
};

// Joins the warps' parts of a block in their order and stores them: those of `heads` rows from first_row on.
template <int kHead>
__device__ void store_joined(const WarpPart<kHead>& mine, const Decode<bf16>& d, int64_t first_row, int heads,
                             int part) {
  __shared__ float maxima[kMmaWarps][kMmaRows], totals[kMmaWarps][kMmaRows];
  auto* of_warps = reinterpret_cast<float*>(dynamic_shared());  // [kMmaWarps, kMmaRows, kHead]
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = MmaSums::row(i);
    float* const to = of_warps + (warp_index() * kMmaRows + row) * kHead;
#pragma unroll
    for (int column = 0; column < MmaHeadSums<kHead>::kParts; ++column)
      to[column * kMmaColumns + MmaSums::column(i)] = mine.sums.at[column].at[i];
    if (i % 2 > 0 || lane_index() % 4 > 0) continue;
    maxima[warp_index()][row] = mine.maximum[i / 2];
    totals[warp_index()][row] = mine.total[i / 2];
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < heads * kHead; i += kDecodeThreads) {
    const int head = i / kHead, column = i % kHead;
    float largest = kNothing, sum = 0, total = 0;
#pragma unroll
    for (int warp = 0; warp < kMmaWarps; ++warp) largest = fmaxf(largest, maxima[warp][head]);
#pragma unroll
    for (int warp = 0; warp < kMmaWarps; ++warp) {
      const float factor = factor_between(maxima[warp][head], largest);
      sum += factor * of_warps[(warp * kMmaRows + head) * kHead + column];
      total += factor * totals[warp][head];
    }
    const int64_t index = d.index(first_row + head, part);
    if (column < d.problem.head_size) d.values(index)[column] = sum;
    if (column > 0) continue;
    d.state(index)[0] = largest;
    d.state(index)[1] = total;
  }
}

// Uses a block for each part of each group of heads of each token, in the same order.
template <int kHead, bool kCapped>
__global__ void __launch_bounds__(kDecodeThreads) group_part_kernel(Decode<bf16> d) {
  using Tiles = DecodeTiles<kHead>;
  const Problem<bf16>& p = d.problem;
  const int shared_by = p.heads / p.kv_heads, groups = div_ceil(shared_by, kMmaRows);
  const int blocks = p.tokens * p.kv_heads * groups;
  const int part = static_cast<int>(blockIdx.x) / blocks, block = static_cast<int>(blockIdx.x) % blocks;
  const int group = block % groups;
  const int kv_head = block / groups % p.kv_heads, token = block / groups / p.kv_heads;
  const auto cut = d.cut_of(token);
  if (part >= cut.parts) return;
  const int heads = at_most(kMmaRows, shared_by - group * kMmaRows);
  const int64_t first_row = int64_t{token} * p.heads + kv_head * shared_by + group * kMmaRows;

  SharedTiles shared;
  const auto queries = shared.take<typename Tiles::Heads>();
  const auto keys = shared.take<typename Tiles::Keys>(), values = shared.take<typename Tiles::Keys>();
  queries.template start_loading<kDecodeThreads>(p.q + first_row * p.head_size, p.head_size, heads, p.head_size);
  const auto load = [&](const SpanWalk& walk, int) {
    const int64_t at = walk.key * p.k_pitch() + int64_t{kv_head} * p.head_size;
    keys.template start_loading<kDecodeThreads>(p.k + at, p.k_pitch(), walk.count(), p.head_size);
    values.template start_loading<kDecodeThreads>(p.v + at, p.k_pitch(), walk.count(), p.head_size);
  };
  WarpPart<kHead> mine;
  const KeySpan span = d.span_of(token, cut, part);
  for_each_tile<1>(SpanWalk{span.begin, span.end}, load, [&](const SpanWalk& walk, int) {
    mine.template add<kCapped>(queries, keys, values, walk.count(), p.map);
  });
  store_joined(mine, d, first_row, heads, part);
}

// Uses a block for each head of each token.
template <typename T>
__global__ void __launch_bounds__(kDecodeThreads) join_parts_kernel(Decode<T> d) {
  const int row = static_cast<int>(blockIdx.x), parts = d.cut_of(row / d.problem.heads).parts;
  const int size = d.problem.head_size;
  const int64_t first = d.index(row, 0);
  const SoftmaxState start = d.problem.sinks.start(row % d.problem.heads);
  float largest = start.maximum;
  for (int part = 0; part < parts; ++part) largest = fmaxf(largest, d.state(first + part)[0]);
  float total = factor_between(start.maximum, largest) * start.sum;
  for (int part = 0; part < parts; ++part) {
    const float* const state = d.state(first + part);
    total += factor_between(state[0], largest) * state[1];
  }
  for (int column = static_cast<int>(threadIdx.x); column < size; column += kDecodeThreads) {
    float sum = 0;
    for (int part = 0; part < parts; ++part)
      sum += factor_between(d.state(first + part)[0], largest) * d.values(first + part)[column];
    d.o[int64_t{row} * size + column] = from_float<T>(sum / total);
  }
}

template <typename T>
Decode<T> decode_of(const AttentionArgs& args, std::byte* workspace) {
  return {
      .problem = problem_of<T>(args, {}), .o = static_cast<T*>(args.o), .parts = reinterpret_cast<float*>(workspace)};
}

template <typename T>
void decode_by_heads(const AttentionArgs& args, const Decode<T>& d, void* stream) {
  const int64_t shared = kTeams * args.head_size * static_cast<int64_t>(sizeof(float));
  const int64_t blocks = args.tokens * args.heads * DecodeParts::kMaxParts;
  with_attention_head(args, [&](auto head, auto capped) {
    launch(head_part_kernel<head, capped, T>, {blocks, kDecodeThreads, shared}, stream, d);
  });
}

void decode_by_groups(const AttentionArgs& args, const Decode<bf16>& d, void* stream) {
  const int64_t groups = div_ceil(args.heads / args.kv_heads, kMmaRows);
  const int64_t blocks = args.tokens * args.kv_heads * groups * DecodeParts::kMaxParts;
  with_attention_head(args, [&](auto head, auto capped) {
    launch(group_part_kernel<head, capped>, {blocks, kDecodeThreads, DecodeTiles<head>::kSharedBytes}, stream, d);
  });
}

}  // namespace

void attention_decode(const AttentionArgs& args, std::byte* workspace, void* stream) {
  expect_head_fits(args.head_size);
  const auto join = [&]<typename T>(const Decode<T>& d) {
    launch(join_parts_kernel<T>, {args.tokens * args.heads, kDecodeThreads}, stream, d);
  };
  if (args.dtype == DType::kF32) {
    const auto d = decode_of<float>(args, workspace);
    decode_by_heads(args, d, stream);
    return join(d);
  }
  const auto d = decode_of<bf16>(args, workspace);
  takes_tensor_cores(args) ? decode_by_groups(args, d, stream) : decode_by_heads(args, d, stream);
  join(d);
}

}  // namespace spillway::cuda
