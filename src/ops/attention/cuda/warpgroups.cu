// The kernels are bound by tensor cores: 14 T keys S H flops, of which a causal mask leaves half. Scores and their
// gradients stay in registers, as sums of one product and left operands of the next; while a warpgroup computes them,
// the products that it started before, and the other warpgroup's, go on (Shah et al., "FlashAttention-3", 2024). Scores
// are computed twice, once for each kernel, so that no two blocks add to one place.
#include "ops/attention/cuda/warpgroups.h"

#include <type_traits>

#include "backend/cuda/launch.cuh"
#include "backend/cuda/warpgroup.cuh"
#include "ops/attention/cuda/tensor_cores.h"
#include "ops/attention/cuda/walk.cuh"

namespace spillway::cuda {
namespace {

// The number of warpgroups in a block, each with 64 rows of its tile, which stays; a GPU's multiprocessor has registers
// for two warpgroups. If a block is one of them, two blocks run in their own time; if it is both, they share loaded
// data, of which the gradients of keys have more.
constexpr int kQueryGroups = 1, kKeyGroups = 2, kGroupsAtOnce = 2;

constexpr int kColumns = 64;  // of the tiles that a block meets one after another
constexpr int kStages = 2;    // of those, one is computed with and one is on its way

constexpr int64_t kMaxHead = 128;
constexpr float kLog2E = 1.44269504088896341f;

__device__ inline float exp2_of(float x) {
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

// The tiles of columns, [kColumns, kHead], some of which are staged.
template <int kHead>
using Columns = PanelTile<kColumns, kHead>;
template <int kHead>
using StagedColumns = StagedTiles<Columns<kHead>, kStages>;

// The sizes of a block.
template <int kHead, int kGroups>
struct Block {
  static constexpr int kRows = kGroups * kGroupRows, kThreads = kGroups * kGroupWarps * kWarp;
  using Rows = PanelTile<kRows, kHead>;
  static constexpr int kTileBytes = 2 * Rows::kBytes + 2 * StagedColumns<kHead>::kBytes;
};

// Computes what score_gradient() computes, in the two steps in which its products arrive, and without the gradient's
// last factor, which is map.scale for all of them.
template <bool kCapped>
struct ScoreGradients {
  float to_tanh, to_exponent;
  __device__ explicit ScoreGradients(ScoreMap map)
      : to_tanh(kCapped ? map.scale / map.cap : 0), to_exponent((kCapped ? map.cap : map.scale) * kLog2E) {}

  // Returns the term from which both results come: the weight itself or, if scores are capped, the part of the cap.
  [[nodiscard]] __device__ float first(float of_key, RowSums row) const {
    return kCapped ? tanhf(of_key * to_tanh) : exp2_of(of_key * to_exponent - row.lse * kLog2E);
  }
  [[nodiscard]] __device__ float weight(float first, RowSums row) const {
    return kCapped ? exp2_of(first * to_exponent - row.lse * kLog2E) : first;
  }
  [[nodiscard]] __device__ float gradient(float first, float of_value, RowSums row) const {
    const float result = weight(first, row) * (of_value - row.delta);
    return kCapped ? result * (1 - first * first) : result;
  }
};

// Starts the products of a warpgroup's rows with a tile's, over the head: of rows in registers, or in a tile from
// `first` on.
template <int kHead>
__device__ void start_scores(GroupSums& scores, const MmaLeft (&rows)[kHead / kMmaDepth],
                             const Columns<kHead>& columns) {
  start_product_of_rows<false>(scores, rows[0], columns, 0);
#pragma unroll
  for (int i = 1; i < kHead / kMmaDepth; ++i) start_product_of_rows<true>(scores, rows[i], columns, i * kMmaDepth);
}
template <int kHead, int kRows>
__device__ void start_scores(GroupSums& scores, const PanelTile<kRows, kHead>& rows, int first,
                             const Columns<kHead>& columns) {
  start_product_of_rows<false>(scores, rows, first, columns, 0);
#pragma unroll
  for (int depth = kMmaDepth; depth < kHead; depth += kMmaDepth) {
    start_product_of_rows<true>(scores, rows, first, columns, depth);
  }
}

// Calls f(element, part, i) for each of a lane's part of [64, 64], as GroupSums and MmaSums number them.
template <typename Function>
__device__ void for_each_sum(GroupSums& sums, const Function& f) {
#pragma unroll
  for (int part = 0; part < GroupSums::kParts; ++part) {
#pragma unroll
    for (int i = 0; i < 4; ++i) f(sums.at[part].at[i], part, i);
  }
}
__device__ inline int column_of(int part, int i) { return part * kMmaColumns + MmaSums::column(i); }

// A warpgroup's [64, 64] as left operands: f(part, i) gives each element.
struct Weights {
  MmaLeft at[kColumns / kMmaDepth];
  template <typename Function>
  __device__ void take(const Function& f) {
#pragma unroll
    for (int part = 0; part < GroupSums::kParts; ++part) {
#pragma unroll
      for (int i = 0; i < 4; i += 2) at[part / 2].at[part % 2 * 2 + i / 2] = pack_pair(f(part, i), f(part, i + 1));
    }
  }
};

// Calls f(std::true_type()) if `condition` holds, else f(std::false_type()).
template <typename Function>
__device__ void with_constant(bool condition, const Function& f) {
  condition ? f(std::true_type()) : f(std::false_type());
}

// A warpgroup's [64, kHead] of sums.
template <int kHead>
struct HeadSums {
  static constexpr int kPanels = kHead / 64;
  GroupSums at[kPanels];

  // Starts the addition of weights times columns, over the columns.
  __device__ void start_adding(const Weights& weights, const Columns<kHead>& columns) {
#pragma unroll
    for (int i = 0; i < kColumns / kMmaDepth; ++i) {
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
        start_product_of_columns(at[panel], weights.at[i], columns, i * kMmaDepth, panel);
      }
    }
  }

  // Stores row i of the block's tile, times `scale`, at to + i * pitch, if has_row(i).
  template <typename HasRow>
  __device__ void store_to(bf16* to, int64_t pitch, int width, float scale, const HasRow& has_row) const {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const int row = warp_index() * kMmaRows + MmaSums::row(i);
      if (!has_row(row)) continue;
#pragma unroll
      for (int panel = 0; panel < kPanels; ++panel) {
#pragma unroll
        for (int part = 0; part < GroupSums::kParts; ++part) {
          const int column = panel * 64 + part * kMmaColumns + MmaSums::column(i);
          if (column >= width) continue;
          const MmaSums& sums = at[panel].at[part];
          *reinterpret_cast<unsigned*>(to + row * pitch + column) =
              pack_pair(sums.at[i] * scale, sums.at[i + 1] * scale);
        }
      }
    }
  }
};

// Waits until the tile that is on its way is there, and no warp computes with the one before: from here on the other
// stage may be loaded.
__device__ inline void wait_for_tile() {
  wait_for_copies<0>();
  show_to_products();
  __syncthreads();
}

// Uses a block for each tile of queries and each head; the tiles that see most come first.
template <int kHead, bool kCapped>
__global__ void __launch_bounds__(Block<kHead, kQueryGroups>::kThreads, kGroupsAtOnce / kQueryGroups)
    query_grad_kernel(GradProblem<bf16> grad) {
  using Sizes = Block<kHead, kQueryGroups>;
  constexpr int kRows = Sizes::kRows, kThreads = Sizes::kThreads;
  const Problem<bf16>& p = grad.forward;
  SharedTiles shared;
  const auto queries = shared.take<typename Sizes::Rows>();
  const auto d_outputs = shared.take<typename Sizes::Rows>();
  const auto keys = shared.take<StagedColumns<kHead>>(), values = shared.take<StagedColumns<kHead>>();
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
  const ScoreGradients<kCapped> map(p.map);
  GroupSums scores, products;
  Weights gradients;
  HeadSums<kHead> sums = {};
  int key = p.first_key_of(first) / kColumns * kColumns, stage = 0;
  if (key < end) start_loading(key, stage);
  commit_copies();
  wait_for_tile();
  MmaLeft query_rows[kHead / kMmaDepth], d_output_rows[kHead / kMmaDepth];
#pragma unroll
  for (int i = 0; i < kHead / kMmaDepth; ++i) {
    query_rows[i] = queries.left(warp_index() * kMmaRows, i * kMmaDepth);
    d_output_rows[i] = d_outputs.left(warp_index() * kMmaRows, i * kMmaDepth);
  }
  for (; key < end; key += kColumns, stage ^= 1) {
    wait_for_tile();
    start_products();
    start_scores<kHead>(scores, query_rows, keys[stage]);
    commit_products();
    start_scores<kHead>(products, d_output_rows, values[stage]);
    commit_products();
    if (key + kColumns < end) start_loading(key + kColumns, stage ^ 1);
    commit_copies();
    const auto sees_all = [&](KeyRange visible) { return visible.has(key) && visible.has(key + kColumns - 1); };
    const bool all = __ballot_sync(kAllLanes, sees_all(facts[0].visible) && sees_all(facts[1].visible)) == kAllLanes;
    wait_for_products<1>();
    for_each_sum(scores, [&](float& score, int, int i) { score = map.first(score, facts[i / 2].sums); });
    wait_for_products<0>();
    with_constant(all, [&](auto all_seen) {
      gradients.take([&](int part, int i) {
        const QueryFacts& row = facts[i / 2];
        const float gradient = map.gradient(scores.at[part].at[i], products.at[part].at[i], row.sums);
        return all_seen || row.visible.has(key + column_of(part, i)) ? gradient : 0.0f;
      });
    });
    start_products();
    sums.start_adding(gradients, keys[stage]);
    commit_products();
    wait_for_products<0>();
  }
  sums.store_to(grad.dq + q_at, p.q_pitch(), p.head_size, p.map.scale, [&](int row) { return p.has(first + row); });
}

// Uses a block for each tile of keys and each key head; it goes through the query heads of the group, and through the
// tiles of queries that may see its keys. Here rows are keys, and columns are queries.
template <int kHead, bool kCapped>
__global__ void __launch_bounds__(Block<kHead, kKeyGroups>::kThreads, kGroupsAtOnce / kKeyGroups)
    key_grad_kernel(GradProblem<bf16> grad) {
  using Sizes = Block<kHead, kKeyGroups>;
  constexpr int kRows = Sizes::kRows, kThreads = Sizes::kThreads;
  const Problem<bf16>& p = grad.forward;
  SharedTiles shared;
  const auto keys = shared.take<typename Sizes::Rows>(), values = shared.take<typename Sizes::Rows>();
  const auto queries = shared.take<StagedColumns<kHead>>();
  const auto d_outputs = shared.take<StagedColumns<kHead>>();
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
  const int key = first + warp_index() * kMmaRows, group_row = group_index() * kGroupRows;
  const ScoreGradients<kCapped> map(p.map);
  GroupSums scores, products;
  Weights weights, gradients;
  HeadSums<kHead> dk = {}, dv = {};
  QueryWalk<kColumns> walk(p, first, rows, kv_head);
  int stage = 0;
  if (!walk.is_done()) start_loading(walk, stage);
  commit_copies();
  for (; !walk.is_done(); stage ^= 1) {
    wait_for_tile();
    start_products();
    start_scores<kHead>(scores, keys, group_row, queries[stage]);
    commit_products();
    start_scores<kHead>(products, values, group_row, d_outputs[stage]);
    commit_products();
    walk.advance();
    if (!walk.is_done()) start_loading(walk, stage ^ 1);
    commit_copies();
    const auto sums_of = [&](int part, int i) {
      const int column = column_of(part, i);
      return RowSums{facts.lse(stage, column).at[i % 2], facts.delta(stage, column).at[i % 2]};
    };
    const bool all = facts.all_see(stage, first, first + kRows - 1);
    const auto where_seen = [&](auto all_seen, float value, int part, int i) {
      return all_seen || facts.visible(stage, column_of(part, i)).has(key + MmaSums::row(i)) ? value : 0.0f;
    };
    wait_for_products<1>();
    for_each_sum(scores, [&](float& score, int part, int i) { score = map.first(score, sums_of(part, i)); });
    with_constant(all, [&](auto all_seen) {
      weights.take([&](int part, int i) {
        return where_seen(all_seen, map.weight(scores.at[part].at[i], sums_of(part, i)), part, i);
      });
    });
    start_products();
    dv.start_adding(weights, d_outputs[stage]);
    commit_products();
    wait_for_products<1>();
    with_constant(all, [&](auto all_seen) {
      gradients.take([&](int part, int i) {
        const float gradient = map.gradient(scores.at[part].at[i], products.at[part].at[i], sums_of(part, i));
        return where_seen(all_seen, gradient, part, i);
      });
    });
    start_products();
    dk.start_adding(gradients, queries[stage]);
    commit_products();
    wait_for_products<0>();
  }
  const auto has_row = [&](int row) { return p.has_key(first + row); };
  dk.store_to(grad.dk + k_at, p.k_pitch(), p.head_size, p.map.scale, has_row);
  dv.store_to(grad.dv + k_at, p.k_pitch(), p.head_size, 1, has_row);
}

// Returns true if the GPU in use is an sm_90, for which this build has code.
bool has_warpgroups() {
#ifndef __CUDACC__
  return simt::compute_capability() == 90;
#elif defined(SPILLWAY_SM_90A)
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device), "to name the GPU in use");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "a GPU's compute capability");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "a GPU's compute capability");
  return major == 9 && minor == 0;
#else
  return false;
#endif
}

// Calls f(the padded head size as a constant, whether scores are capped as one).
template <typename Function>
void with_kernels(const AttentionArgs& args, const Function& f) {
  with_attention_head(args, [&](auto head, auto capped) {
    if constexpr (head <= kMaxHead) f(head, capped);
  });
}

}  // namespace

bool takes_warpgroups(const AttentionArgs& args) {
  return takes_tensor_cores(args) && args.head_size <= kMaxHead && has_warpgroups();
}

void launch_warpgroup_gradients(const AttentionArgs& args, const GradProblem<bf16>& problem, void* stream) {
  with_kernels(args, [&](auto head, auto capped) {
    using OfQueries = Block<head, kQueryGroups>;
    using OfKeys = Block<head, kKeyGroups>;
    const int64_t query_tiles = div_ceil(args.tokens, OfQueries::kRows);
    const int64_t key_tiles = div_ceil(problem.forward.key_tokens, OfKeys::kRows);
    launch(query_grad_kernel<head, capped>, {query_tiles * args.heads, OfQueries::kThreads, OfQueries::kTileBytes},
           stream, problem);
    launch(key_grad_kernel<head, capped>,
           {key_tiles * args.kv_heads, OfKeys::kThreads, OfKeys::kTileBytes + StagedQueries<kColumns, kStages>::kBytes},
           stream, problem);
  });
}

}  // namespace spillway::cuda
