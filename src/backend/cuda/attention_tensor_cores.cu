// Bound by tensor cores: 14 T keys S H flops, of which a causal mask leaves half. A warp has 16 rows of a tile; its
// scores and their gradients stay in registers as sums of one product and left operands of the next (Dao,
// "FlashAttention-2", 2023). Scores are computed twice, once for each kernel, so that no two blocks add to one place.
#include "backend/cuda/attention_tensor_cores.h"

#include <type_traits>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/tensor_cores.cuh"

namespace spillway::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarp;
constexpr int kRows = kWarps * kMmaRows;  // of a block's tile, which stays
constexpr int kColumns = 64;              // of the tiles that it meets one after another
constexpr int kStages = 2;                // of those, one is computed with and one is on its way

constexpr int64_t kMaxHead = 128;

// By value: std::min would want the constants' addresses, which they do not have on the GPU.
__device__ inline int at_most(int limit, int value) { return value < limit ? value : limit; }

// What a score's gradient needs of its row of queries.
struct alignas(16) QueryFacts {
  KeyRange visible;
  RowSums sums;
};
struct StagedFacts {
  static constexpr int kBytes = kStages * kColumns * static_cast<int>(sizeof(QueryFacts));
  QueryFacts* data;
  [[nodiscard]] __device__ QueryFacts& at(int stage, int column) const { return data[stage * kColumns + column]; }
};
template <typename T>
__device__ QueryFacts facts_of(const GradProblem<T>& grad, int row, int head) {
  const KeyRange visible = grad.forward.keys_of(row);
  return {visible, grad.sums_of(row, head, visible)};
}

// One for each stage. By arithmetic, so that the stage's number needs no table in memory.
template <typename Tile>
struct StagedTile {
  static constexpr int kBytes = kStages * Tile::kBytes;
  bf16* data;
  [[nodiscard]] __device__ Tile operator[](int stage) const {
    return Tile{data + stage * (Tile::kBytes / static_cast<int>(sizeof(bf16)))};
  }
};

template <int kHead>
struct Tiles {
  using Rows = MmaTile<kRows, kHead>;
  using Columns = MmaTile<kColumns, kHead>;
  using Staged = StagedTile<Columns>;
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

// The query heads of a key head, one after another, and of each the tiles of queries that may see a tile of keys.
struct QueryWalk {
  int first, rows, query_end;  // of the keys' tile
  int head, head_end, query;

  template <typename T>
  __device__ QueryWalk(const Problem<T>& p, int first_key, int key_rows, int kv_head)
      : first(first_key),
        rows(key_rows),
        query_end(p.row_end_of(first_key + key_rows - 1)),
        head(kv_head * (p.heads / p.kv_heads)),
        head_end(head + p.heads / p.kv_heads),
        query(p.first_row_of(first_key)) {
    skip_unseen(p);
  }
  [[nodiscard]] __device__ bool is_done() const { return head >= head_end; }
  template <typename T>
  __device__ QueryWalk next(const Problem<T>& p) const {
    QueryWalk result = *this;
    result.query += kColumns;
    result.skip_unseen(p);
    return result;
  }
  [[nodiscard]] __device__ int count() const { return at_most(kColumns, query_end - query); }

 private:
  // Whether no query from here on sees one of the keys.
  template <typename T>
  [[nodiscard]] __device__ bool is_past(const Problem<T>& p) const {
    return query >= query_end || p.first_key_of(query) >= first + rows;
  }
  // All heads have the same queries: where one has none, there are none.
  template <typename T>
  __device__ void skip_unseen(const Problem<T>& p) {
    if (!is_past(p)) return;
    ++head;
    query = p.first_row_of(first);
    if (is_past(p)) head = head_end;
  }
};

// A block for each tile of keys and each key head; it goes through the query heads of the group, and through the tiles
// of queries that may see its keys. Here rows are keys, and columns are queries.
template <int kHead, bool kCapped>
__global__ void __launch_bounds__(kThreads, 2) key_grad_kernel(GradProblem<bf16> grad) {
  const Problem<bf16>& p = grad.forward;
  SharedTiles shared;
  const auto keys = shared.take<typename Tiles<kHead>::Rows>(), values = shared.take<typename Tiles<kHead>::Rows>();
  const auto queries = shared.take<typename Tiles<kHead>::Staged>();
  const auto d_outputs = shared.take<typename Tiles<kHead>::Staged>();
  const auto facts = shared.take<StagedFacts>();
  const int kv_head = static_cast<int>(blockIdx.x) % p.kv_heads;
  const int first = static_cast<int>(blockIdx.x) / p.kv_heads * kRows;
  const int rows = at_most(kRows, p.key_tokens - first);
  if (!has_any<kRows>(first, [&](int row) { return p.has_key(row); })) return;
  const int64_t k_at = first * p.k_pitch() + kv_head * p.head_size;
  keys.template start_loading<kThreads>(p.k + k_at, p.k_pitch(), rows, p.head_size);
  values.template start_loading<kThreads>(p.v + k_at, p.k_pitch(), rows, p.head_size);

  const auto start_loading = [&](const QueryWalk& walk, int stage) {
    const int64_t at = walk.query * p.q_pitch() + walk.head * p.head_size;
    queries[stage].template start_loading<kThreads>(p.q + at, p.q_pitch(), walk.count(), p.head_size);
    d_outputs[stage].template start_loading<kThreads>(grad.d_o + at, p.q_pitch(), walk.count(), p.head_size);
    const int column = static_cast<int>(threadIdx.x);
    if (column < kColumns) {
      facts.at(stage, column) =
          column < walk.count() ? facts_of(grad, walk.query + column, walk.head) : QueryFacts{{0, -1}, {0, 0}};
    }
  };
  const int key = first + warp_index() * kMmaRows;
  HeadSums<kHead> dk, dv;
  QueryWalk walk(p, first, rows, kv_head);
  int stage = 0;
  if (!walk.is_done()) start_loading(walk, stage);
  commit_copies();
  for (; !walk.is_done(); stage ^= 1) {
    const QueryWalk next = walk.next(p);
    if (!next.is_done()) start_loading(next, stage ^ 1);
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
        const QueryFacts of_query = facts.at(stage, part * kMmaColumns + MmaSums::column(i));
        const bool visible = of_query.visible.has(key + MmaSums::row(i));
        float &score = scores.at[part].at[i], &product = products.at[part].at[i];
        const ScoreGradient of_score = score_gradient<kCapped>(visible, score, product, p.map, of_query.sums);
        score = of_score.weight;
        product = of_score.gradient;
      }
    }
    dv.add_product(scores, d_outputs[stage]);
    dk.add_product(products, queries[stage]);
    __syncthreads();  // before the tiles' memory is loaded into again
    walk = next;
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
    launch(key_grad_kernel<head, capped>, {key_tiles * args.kv_heads, kThreads, kTileBytes + StagedFacts::kBytes},
           stream, problem);
  });
}

}  // namespace spillway::cuda
