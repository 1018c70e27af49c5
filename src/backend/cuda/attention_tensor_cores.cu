// Bound by tensor cores: 14 T keys S H flops, of which a causal mask leaves half. A warp has 16 rows of a tile; its
// scores and their gradients stay in registers as sums of one product and left operands of the next (Dao,
// "FlashAttention-2", 2023). Scores are computed twice, once for each kernel, so that no two blocks add to one place.
#include "backend/cuda/attention_tensor_cores.h"

#include <type_traits>

#include "backend/cuda/attention_walk.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/tensor_cores.cuh"

namespace spillway::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int kRows = kWarps * kMmaRows;  // of a block's tile, which stays
constexpr int kColumns = 64;              // of the tiles that it meets one after another
constexpr int kStages = 2;                // of those, one is computed with and one is on its way

constexpr int64_t kMaxHead = 128;

template <int kHead>
struct Tiles {
  using Rows = MmaTile<kRows, kHead>;
  using Columns = MmaTile<kColumns, kHead>;
  using Staged = StagedTiles<Columns, kStages>;
};

// A warp's [16, kColumns] of rows times columns, both over the head.
template <int kHead>
struct Scores {
  static constexpr int kParts = kColumns / kMmaColumns;
  MmaSums at[kParts];

  __device__ void add_product(const typename Tiles<kHead>::Rows& rows, const typename Tiles<kHead>::Columns& columns) {
    const int first = warp_index() * kMmaRows;
#pragma unroll
    for (int depth = 0; depth < kHead; depth += kMmaDepth) {
      const MmaLeft left = rows.left(first, depth);
#pragma unroll
      for (int part = 0; part < kParts; part += 2) {
        MmaRight right[2];
        columns.right_of_rows(part * kMmaColumns, depth, right);
        multiply_add(at[part], left, right[0]);
        multiply_add(at[part + 1], left, right[1]);
      }
    }
  }
};

// A warp's [16, kHead] of sums.
template <int kHead>
struct HeadSums {
  static constexpr int kParts = kHead / kMmaColumns;
  MmaSums at[kParts];

  // += weights columns, over the columns.
  __device__ void add_product(const Scores<kHead>& weights, const typename Tiles<kHead>::Columns& columns) {
#pragma unroll
    for (int depth = 0; depth < kColumns; depth += kMmaDepth) {
      const int part = depth / kMmaColumns;
      const MmaLeft left = as_left(weights.at[part], weights.at[part + 1]);
#pragma unroll
      for (int column = 0; column < kParts; column += 2) {
        MmaRight right[2];
        columns.right_of_columns(depth, column * kMmaColumns, right);
        multiply_add(at[column], left, right[0]);
        multiply_add(at[column + 1], left, right[1]);
      }
    }
  }

  // Row i of the block's tile goes to to + i * pitch, where has_row(i).
  template <typename HasRow>
  __device__ void store_to(bf16* to, int64_t pitch, int width, const HasRow& has_row) const {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const int row = warp_index() * kMmaRows + MmaSums::row(i);
      if (!has_row(row)) continue;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int column = part * kMmaColumns + MmaSums::column(i);
        if (column >= width) continue;
        *reinterpret_cast<unsigned*>(to + row * pitch + column) = pack_pair(at[part].at[i], at[part].at[i + 1]);
      }
    }
  }
};

// A block for each tile of queries and each head; the tiles that see most come first.
template <int kHead, bool kCapped>
__global__ void __launch_bounds__(kThreads, 2) query_grad_kernel(GradProblem<bf16> grad) {
  const Problem<bf16>& p = grad.forward;
  SharedTiles shared;
  const auto queries = shared.take<typename Tiles<kHead>::Rows>();
  const auto d_outputs = shared.take<typename Tiles<kHead>::Rows>();
  const auto keys = shared.take<typename Tiles<kHead>::Staged>(), values = shared.take<typename Tiles<kHead>::Staged>();
  const int head = static_cast<int>(blockIdx.x) % p.heads, tiles = div_ceil(p.tokens, kRows);
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) / p.heads) * kRows;
  const int rows = at_most(kRows, p.tokens - first);
  if (!has_any<kRows>(first, [&](int row) { return p.has(row); })) return;
  const int64_t q_at = first * p.q_pitch() + head * p.head_size;
  queries.template start_loading<kThreads>(p.q + q_at, p.q_pitch(), rows, p.head_size);
  d_outputs.template start_loading<kThreads>(grad.d_o + q_at, p.q_pitch(), rows, p.head_size);

  const int end = p.last_key(first + rows - 1) + 1;
  const auto start_loading = [&](int key, int stage) {
    const int64_t at = key * p.k_pitch() + p.kv_head(head) * p.head_size;
    const int count = at_most(kColumns, end - key);
    keys[stage].template start_loading<kThreads>(p.k + at, p.k_pitch(), count, p.head_size);
    values[stage].template start_loading<kThreads>(p.v + at, p.k_pitch(), count, p.head_size);
  };
  const int warp_row = first + warp_index() * kMmaRows;
  const QueryFacts facts[2] = {facts_of(grad, warp_row + MmaSums::row(0), head),
                               facts_of(grad, warp_row + MmaSums::row(2), head)};
  HeadSums<kHead> sums;
  int key = p.first_key_of(first) / kColumns * kColumns, stage = 0;
  if (key < end) start_loading(key, stage);
  commit_copies();
  for (; key < end; key += kColumns, stage ^= 1) {
    if (key + kColumns < end) start_loading(key + kColumns, stage ^ 1);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    Scores<kHead> scores, products;
    scores.add_product(queries, keys[stage]);
    products.add_product(d_outputs, values[stage]);
#pragma unroll
    for (int part = 0; part < Scores<kHead>::kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const QueryFacts& row = facts[i / 2];
        const bool visible = row.visible.has(key + part * kMmaColumns + MmaSums::column(i));
        float& score = scores.at[part].at[i];
        score = score_gradient<kCapped>(visible, score, products.at[part].at[i], p.map, row.sums).gradient;
      }
    }
    sums.add_product(scores, keys[stage]);
    __syncthreads();  // before the tile's memory is loaded into again
  }
  sums.store_to(grad.dq + q_at, p.q_pitch(), p.head_size, [&](int row) { return p.has(first + row); });
}

// A block for each tile of keys and each key head; it goes through the query heads of the group, and through the tiles
// of queries that may see its keys. Here rows are keys, and columns are queries.
template <int kHead, bool kCapped>
__global__ void __launch_bounds__(kThreads, 2) key_grad_kernel(GradProblem<bf16> grad) {
  const Problem<bf16>& p = grad.forward;
  SharedTiles shared;
  const auto keys = shared.take<typename Tiles<kHead>::Rows>(), values = shared.take<typename Tiles<kHead>::Rows>();
  const auto queries = shared.take<typename Tiles<kHead>::Staged>();
  const auto d_outputs = shared.take<typename Tiles<kHead>::Staged>();
  const auto facts = shared.take<StagedQueries<kColumns, kStages>>();
  const int kv_head = static_cast<int>(blockIdx.x) % p.kv_heads;
  const int first = static_cast<int>(blockIdx.x) / p.kv_heads * kRows;
  const int rows = at_most(kRows, p.key_tokens - first);
  if (!has_any<kRows>(first, [&](int row) { return p.has_key(row); })) return;
  const int64_t k_at = first * p.k_pitch() + kv_head * p.head_size;
  keys.template start_loading<kThreads>(p.k + k_at, p.k_pitch(), rows, p.head_size);
  values.template start_loading<kThreads>(p.v + k_at, p.k_pitch(), rows, p.head_size);

  const auto start_loading = [&](const QueryWalk<kColumns>& walk, int stage) {
    const int64_t at = walk.query * p.q_pitch() + walk.head * p.head_size;
    queries[stage].template start_loading<kThreads>(p.q + at, p.q_pitch(), walk.count(), p.head_size);
    d_outputs[stage].template start_loading<kThreads>(grad.d_o + at, p.q_pitch(), walk.count(), p.head_size);
    facts.start_loading(grad, walk, stage);
  };
  const int key = first + warp_index() * kMmaRows;
  HeadSums<kHead> dk, dv;
  QueryWalk<kColumns> walk(p, first, rows, kv_head);
  int stage = 0;
  if (!walk.is_done()) start_loading(walk, stage);
  commit_copies();
  for (; !walk.is_done(); stage ^= 1) {
    walk.advance();
    if (!walk.is_done()) start_loading(walk, stage ^ 1);
    commit_copies();
    wait_for_copies<1>();
    __syncthreads();
    Scores<kHead> scores, products;
    scores.add_product(keys, queries[stage]);
    products.add_product(values, d_outputs[stage]);
#pragma unroll
    for (int part = 0; part < Scores<kHead>::kParts; ++part) {
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
    dv.add_product(scores, d_outputs[stage]);
    dk.add_product(products, queries[stage]);
    __syncthreads();  // before the tiles' memory is loaded into again
  }
  const auto has_row = [&](int row) { return p.has_key(first + row); };
  dk.store_to(grad.dk + k_at, p.k_pitch(), p.head_size, has_row);
  dv.store_to(grad.dv + k_at, p.k_pitch(), p.head_size, has_row);
}

// Calls f(the padded head size as a constant, whether scores are capped as one).
template <typename Function>
void with_kernels(const AttentionArgs& args, const Function& f) {
  const auto with_size = [&](auto size) { args.soft_cap > 0 ? f(size, std::true_type()) : f(size, std::false_type()); };
  args.head_size <= 64 ? with_size(std::integral_constant<int, 64>()) : with_size(std::integral_constant<int, 128>());
}

}  // namespace

bool has_tensor_core_gradients(const AttentionArgs& args) {
  return args.dtype == DType::kBF16 && args.head_size % MmaTile<kRows, 64>::kPieceElems == 0 &&
         args.head_size <= kMaxHead;
}

void launch_tensor_core_gradients(const AttentionArgs& args, const GradProblem<bf16>& problem, void* stream) {
  with_kernels(args, [&](auto head, auto capped) {
    constexpr int kTileBytes = 2 * Tiles<head>::Rows::kBytes + 2 * Tiles<head>::Staged::kBytes;
    const int64_t query_tiles = div_ceil(args.tokens, kRows), key_tiles = div_ceil(problem.forward.key_tokens, kRows);
    launch(query_grad_kernel<head, capped>, {query_tiles * args.heads, kThreads, kTileBytes}, stream, problem);
    launch(key_grad_kernel<head, capped>,
           {key_tiles * args.kv_heads, kThreads, kTileBytes + StagedQueries<kColumns, kStages>::kBytes}, stream,
           problem);
  });
}

}  // namespace spillway::cuda
