// The kernels are bound by tensor cores: 14 T keys S H flops, of which a causal mask leaves half; 16 if heads are wider
// than 128. Scores are computed for each kernel anew, so that no two blocks add to one place.
#include "ops/attention/cuda/tensor_cores.h"

#include <type_traits>

#include "backend/cuda/launch.cuh"
#include "ops/attention/cuda/mma.cuh"

namespace spillway::cuda {
namespace {

// Wide heads leave room for one tile of columns, and registers for one sum.
template <int kHead>
struct GradTiles : MmaTiles<kHead> {
  static constexpr int kStages = kHead <= 128 ? 2 : 1;
  using Staged = StagedTiles<typename MmaTiles<kHead>::Columns, kStages>;
  using Facts = StagedQueries<MmaTiles<kHead>::kColumns, kStages>;
  static constexpr int kBytes = 2 * MmaTiles<kHead>::Rows::kBytes + 2 * Staged::kBytes;
};

// Uses a block for each tile of queries and each head; the tiles that see most come first.
template <int kHead, bool kCapped>
__global__ void __launch_bounds__(kMmaThreads, 2) query_grad_kernel(GradProblem<bf16> grad) {
  using Sizes = GradTiles<kHead>;
  constexpr int kRows = Sizes::kRows, kColumns = Sizes::kColumns;
  const Problem<bf16>& p = grad.forward;
  SharedTiles shared;
  const auto queries = shared.take<typename Sizes::Rows>(), d_outputs = shared.take<typename Sizes::Rows>();
  const auto keys = shared.take<typename Sizes::Staged>(), values = shared.take<typename Sizes::Staged>();
  const int head = static_cast<int>(blockIdx.x) % p.heads, tiles = div_ceil(p.tokens, kRows);
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) / p.heads) * kRows;
  const int rows = at_most(kRows, p.tokens - first);
  if (!has_any<kRows>(first, [&](int row) { return p.has(row); })) return;
  const int64_t q_at = first * p.q_pitch() + head * p.head_size;
  queries.template start_loading<kMmaThreads>(p.q + q_at, p.q_pitch(), rows, p.head_size);
  d_outputs.template start_loading<kMmaThreads>(grad.d_o + q_at, p.q_pitch(), rows, p.head_size);

  using Walk = KeyWalk<bf16, kColumns>;
  const auto load = [&](const Walk& walk, int stage) {
    const int64_t at = walk.key() * p.k_pitch() + p.kv_head(head) * p.head_size;
    keys[stage].template start_loading<kMmaThreads>(p.k + at, p.k_pitch(), walk.count(), p.head_size);
    values[stage].template start_loading<kMmaThreads>(p.v + at, p.k_pitch(), walk.count(), p.head_size);
  };
  const int warp_row = first + warp_index() * kMmaRows;
  const QueryFacts facts[2] = {facts_of(grad, warp_row + MmaSums::row(0), head),
                               facts_of(grad, warp_row + MmaSums::row(2), head)};
  MmaHeadSums<kHead> sums;
  for_each_tile<Sizes::kStages>(Walk(p, first, first + rows), load, [&](const Walk& walk, int stage) {
    MmaScores<kHead> scores, products;
    scores.add_product(queries, keys[stage]);
    products.add_product(d_outputs, values[stage]);
#pragma unroll
    for (int part = 0; part < MmaScores<kHead>::kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const QueryFacts& row = facts[i / 2];
        const bool visible = row.visible.has(walk.key() + part * kMmaColumns + MmaSums::column(i));
        float& score = scores.at[part].at[i];
        score = score_gradient<kCapped>(visible, score, products.at[part].at[i], p.map, row.sums).gradient;
      }
    }
    sums.add_product(scores, keys[stage]);
  });
  sums.store_to(grad.dq + q_at, p.q_pitch(), p.head_size, [&](int row) { return p.has(first + row); });
}

// Uses a block for each tile of keys and each key head; it goes through the query heads of the group, and through the
// tiles of queries that may see its keys. Here rows are keys, and columns are queries.
template <int kHead, bool kCapped, bool kOfKeys, bool kOfValues>
__global__ void __launch_bounds__(kMmaThreads, 2) key_grad_kernel(GradProblem<bf16> grad) {
  using Sizes = GradTiles<kHead>;
  constexpr int kRows = Sizes::kRows, kColumns = Sizes::kColumns;
  const Problem<bf16>& p = grad.forward;
  SharedTiles shared;
  const auto keys = shared.take<typename Sizes::Rows>(), values = shared.take<typename Sizes::Rows>();
  const auto queries = shared.take<typename Sizes::Staged>(), d_outputs = shared.take<typename Sizes::Staged>();
  const auto facts = shared.take<typename Sizes::Facts>();
  const int kv_head = static_cast<int>(blockIdx.x) % p.kv_heads;
  const int first = static_cast<int>(blockIdx.x) / p.kv_heads * kRows;
  const int rows = at_most(kRows, p.key_tokens - first);
  if (!has_any<kRows>(first, [&](int row) { return p.has_key(row); })) return;
  const int64_t k_at = first * p.k_pitch() + kv_head * p.head_size;
  keys.template start_loading<kMmaThreads>(p.k + k_at, p.k_pitch(), rows, p.head_size);
  if constexpr (kOfKeys) values.template start_loading<kMmaThreads>(p.v + k_at, p.k_pitch(), rows, p.head_size);

  using Walk = QueryWalk<kColumns>;
  const auto load = [&](const Walk& walk, int stage) {
    const int64_t at = walk.query * p.q_pitch() + walk.head * p.head_size;
    queries[stage].template start_loading<kMmaThreads>(p.q + at, p.q_pitch(), walk.count(), p.head_size);
    d_outputs[stage].template start_loading<kMmaThreads>(grad.d_o + at, p.q_pitch(), walk.count(), p.head_size);
    facts.start_loading(grad, walk, stage);
  };
  const int key = first + warp_index() * kMmaRows;
  MmaHeadSums<kHead> dk, dv;
  for_each_tile<Sizes::kStages>(Walk(p, first, rows, kv_head), load, [&](const Walk&, int stage) {
    MmaScores<kHead> scores, products;
    scores.add_product(keys, queries[stage]);
    if constexpr (kOfKeys) products.add_product(values, d_outputs[stage]);
#pragma unroll
    for (int part = 0; part < MmaScores<kHead>::kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = part * kMmaColumns + MmaSums::column(i);
        const bool visible = facts.visible(stage, column).has(key + MmaSums::row(i));
        const RowSums sums{facts.lse(stage, column).at[i % 2], facts.delta(stage, column).at[i % 2]};
        float &score = scores.at[part].at[i], &product = products.at[part].at[i];
        const ScoreGradient of_score = score_gradient<kCapped>(visible, score, product, p.map, sums);
        score = of_score.weight;
        product = of_score.gradient;
      }
    }
    if constexpr (kOfValues) dv.add_product(scores, d_outputs[stage]);
    if constexpr (kOfKeys) dk.add_product(products, queries[stage]);
  });
  const auto has_row = [&](int row) { return p.has_key(first + row); };
  if constexpr (kOfKeys) dk.store_to(grad.dk + k_at, p.k_pitch(), p.head_size, has_row);
  if constexpr (kOfValues) dv.store_to(grad.dv + k_at, p.k_pitch(), p.head_size, has_row);
}

}  // namespace

void launch_tensor_core_gradients(const AttentionArgs& args, const GradProblem<bf16>& problem, void* stream) {
  with_attention_head(args, [&](auto head, auto capped) {
    using Sizes = GradTiles<head>;
    const int64_t query_tiles = div_ceil(args.tokens, Sizes::kRows);
    const int64_t key_tiles = div_ceil(problem.forward.key_tokens, Sizes::kRows);
    const Grid of_keys{key_tiles * args.kv_heads, kMmaThreads, Sizes::kBytes + Sizes::Facts::kBytes};
    launch(query_grad_kernel<head, capped>, {query_tiles * args.heads, kMmaThreads, Sizes::kBytes}, stream, problem);
    if constexpr (head <= 128) {
      launch(key_grad_kernel<head, capped, true, true>, of_keys, stream, problem);
    } else {
      launch(key_grad_kernel<head, capped, false, true>, of_keys, stream, problem);
      launch(key_grad_kernel<head, capped, true, false>, of_keys, stream, problem);
    }
  });
}

}  // namespace spillway::cuda
