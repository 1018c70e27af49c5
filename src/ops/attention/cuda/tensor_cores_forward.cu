// The kernels are bound by tensor cores: 4 T keys S H flops, of which a causal mask leaves half.
#include "backend/cuda/launch.cuh"
#include "ops/attention/cuda/mma.cuh"
#include "ops/attention/cuda/tensor_cores.h"

namespace spillway::cuda {
namespace {

constexpr int kStages = 2;

// The softmax of a lane's two rows, over the keys that they have met. Four lanes share a row.
struct RowSoftmax {
  KeyRange visible[2];
  float maximum[2], total[2];  // total: of exp(score - maximum)

  template <typename T>
  __device__ RowSoftmax(const Problem<T>& p, int warp_row, int head)
      : visible{p.keys_of(warp_row + MmaSums::row(0)), p.keys_of(warp_row + MmaSums::row(2))} {
    const SoftmaxState start = p.sinks.start(head);
    maximum[0] = maximum[1] = start.maximum;
    total[0] = total[1] = start.sum;
  }

  // Turns products with a tile of keys into weights; scales earlier sums to the new maxima.
  template <bool kCapped, int kHead>
  __device__ void add(MmaScores<kHead>& scores, int first_key, ScoreMap map, MmaHeadSums<kHead>& sums) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const auto for_each = [&](const auto& f) {
#pragma unroll
        for (int part = 0; part < MmaScores<kHead>::kParts; ++part) {
          f(scores.at[part].at[2 * row], part * kMmaColumns + MmaSums::column(2 * row));
          f(scores.at[part].at[2 * row + 1], part * kMmaColumns + MmaSums::column(2 * row + 1));
        }
      };
      float largest = kNothing;
      for_each([&](float& score, int column) {
        score = visible[row].has(first_key + column) ? score_of<kCapped>(score, map) : kNothing;
        largest = fmaxf(largest, score);
      });
      largest = fmaxf(maximum[row], warp_reduce<4>(largest, Max()));
      const float from = largest == kNothing ? 0.0f : largest;  // the weights of an empty row are 0
      float sum = 0;
      for_each([&](float& score, int) {
        score = expf(score - from);
        sum += score;
      });
      const float factor = expf(maximum[row] - from);
      total[row] = total[row] * factor + warp_reduce<4>(sum, Sum());
      maximum[row] = largest;
      sums.scale_row(row, factor);
    }
  }
};

// Uses a block for each tile of queries and each head; the tiles that see most come first.
template <int kHead, bool kCapped>
__global__ void __launch_bounds__(kMmaThreads, 2) forward_kernel(Problem<bf16> p, bf16* o, float* lse) {
  using Sizes = MmaTiles<kHead>;
  using Staged = StagedTiles<typename Sizes::Columns, kStages>;
  constexpr int kRows = Sizes::kRows;
  SharedTiles shared;
  const auto queries = shared.take<typename Sizes::Rows>();
  const auto keys = shared.take<Staged>(), values = shared.take<Staged>();
  const int head = static_cast<int>(blockIdx.x) % p.heads, tiles = div_ceil(p.tokens, kRows);
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) / p.heads) * kRows;
  const int rows = at_most(kRows, p.tokens - first);
  if (!has_any<kRows>(first, [&](int row) { return p.has(row); })) return;
  const int64_t q_at = first * p.q_pitch() + head * p.head_size;
  queries.template start_loading<kMmaThreads>(p.q + q_at, p.q_pitch(), rows, p.head_size);

  using Walk = KeyWalk<bf16, Sizes::kColumns>;
  const auto load = [&](const Walk& walk, int stage) {
    const int64_t at = walk.key() * p.k_pitch() + p.kv_head(head) * p.head_size;
    keys[stage].template start_loading<kMmaThreads>(p.k + at, p.k_pitch(), walk.count(), p.head_size);
    values[stage].template start_loading<kMmaThreads>(p.v + at, p.k_pitch(), walk.count(), p.head_size);
  };
  MmaHeadSums<kHead> sums;
  RowSoftmax softmax(p, first + warp_index() * kMmaRows, head);
  for_each_tile<kStages>(Walk(p, first, first + rows), load, [&](const Walk& walk, int stage) {
    MmaScores<kHead> scores;
    scores.add_product(queries, keys[stage]);
    softmax.template add<kCapped>(scores, walk.key(), p.map, sums);
    sums.add_product(scores, values[stage]);
  });
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float total = softmax.total[row];
    sums.scale_row(row, total > 0 ? 1 / total : 0.0f);
    const int of_tile = warp_index() * kMmaRows + MmaSums::row(2 * row);
    if (lse == nullptr || !p.has(first + of_tile) || lane_index() % 4 > 0) continue;
    lse[int64_t{first + of_tile} * p.heads + head] = total > 0 ? softmax.maximum[row] + logf(total) : 0.0f;
  }
  sums.store_to(o + q_at, p.q_pitch(), p.head_size, [&](int row) { return p.has(first + row); });
}

}  // namespace

void launch_tensor_core_forward(const AttentionArgs& args, const Problem<bf16>& problem, void* stream) {
  with_attention_head(args, [&](auto head, auto capped) {
    using Sizes = MmaTiles<head>;
    constexpr int kBytes = Sizes::Rows::kBytes + 2 * kStages * Sizes::Columns::kBytes;
    launch(forward_kernel<head, capped>, {div_ceil(args.tokens, Sizes::kRows) * args.heads, kMmaThreads, kBytes},
           stream, problem, static_cast<bf16*>(args.o), args.lse);
  });
}

}  // namespace spillway::cuda
