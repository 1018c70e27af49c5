// The work items of the forward pass: a tile of queries of a few heads that share a key head walks over the keys they
// see.
#include "ops/attention/cpu/passes.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/for_each.h"
#include "ops/attention/cpu/tiles.h"

namespace spillway::cpu::attention {
namespace {

void forward_item(const Job& job, const Item& item, Pieces pieces) {
  const AttentionArgs& args = job.args;
  const int64_t width = padded_head(args.head_size);
  float* queries = pieces.take(kItemHeads * kMaxRowTile * width);
  float* sums = pieces.take(kItemHeads * kMaxRowTile * width);
  float* keys = pieces.take(kColumnTile * args.head_size);
  float* values = pieces.take(kColumnTile * width);
  float* scores = pieces.take(MatmulKernels::kMaxRows * kColumnTile);
  auto* states = reinterpret_cast<SoftmaxState*>(pieces.take(2 * kItemHeads * kMaxRowTile));

  Tile tile = make_tile(job, item, true);
  for_each_slot(job, item, tile, [&](int64_t slot, int64_t head) {
    pack_rows(tile, job.query(item.sequence.token_of(tile.row), head), queries + slot * kMaxRowTile * width);
    std::fill_n(states + slot * kMaxRowTile, kMaxRowTile, args.sinks.start(head));
  });
  std::fill_n(sums, kItemHeads * kMaxRowTile * width, 0.0f);

  const int64_t key_end = job.key_end(item.sequence, item.row_end);
  for (tile.column = job.first_key_tile(item.row); tile.column < key_end; tile.column += kColumnTile) {
    tile.columns = std::min(kColumnTile, key_end - tile.column);
    pack_tokens(tile, job.key(item.sequence.key + tile.column, item.kv_head), keys);
    pack_features(tile, job.value(item.sequence.key + tile.column, item.kv_head), values);
    for_each_slot(job, item, tile, [&](int64_t slot, int64_t) {
      float* slot_sums = sums + slot * kMaxRowTile * width;
      for (int64_t panel = 0; panel < tile.panels(); ++panel) {
        multiply_scores(tile, panel, queries + slot * kMaxRowTile * width, keys, scores);
        for_each_row(tile, panel, [&](int64_t row, int64_t panel_row, const RowSpan& span) {
          SoftmaxState& state = states[slot * kMaxRowTile + row];
          const float factor = softmax_row(scores + panel_row * kColumnTile, span, args.scores, tile.format, state);
          if (factor != 1) scale_row(slot_sums + row * width, width, factor);
        });
        add_weighted(tile, panel, scores, values, slot_sums);
      }
    });
  }

  for_each_slot(job, item, tile, [&](int64_t slot, int64_t head) {
    const int64_t token = item.sequence.token_of(tile.row);
    for (int64_t row = 0; row < tile.rows; ++row) {
      const SoftmaxState& state = states[slot * kMaxRowTile + row];
      const bool sees_any = state.sum > 0;  // or its sequence has no keys
      scale_row(sums + (slot * kMaxRowTile + row) * width, width, sees_any ? 1 / state.sum : 0);
      if (args.lse == nullptr) continue;
      args.lse[(token + row) * args.heads + head] = sees_any ? state.maximum + std::log(state.sum) : 0;
    }
    write_rows(tile, sums + slot * kMaxRowTile * width, job.output(args.o, token, head));
  });
}

}  // namespace
}  // namespace spillway::cpu::attention

namespace spillway::cpu {

int64_t attention_workspace_bytes(int64_t tokens, int64_t heads, int64_t head_size, int threads) {
  return (attention::shared_floats(tokens, heads) + threads * attention::thread_floats(head_size)) *
         static_cast<int64_t>(sizeof(float));
}

void attention_forward_with(const MatmulKernels& kernels, Bf16Path path, const AttentionArgs& args,
                            std::byte* workspace, ThreadPool& pool) {
  attention::check(kernels, args, workspace);
  const attention::Job job{kernels, attention::format_of(args, path), args};
  const attention::Items items = attention::items_of_queries(job);
  float* scratch = reinterpret_cast<float*>(workspace) + attention::shared_floats(args.tokens, args.heads);
  const int64_t floats = attention::thread_floats(args.head_size);
  for_each(pool, items.count(), [&](int64_t index, int thread) {
    const TileRun run(kernels.of(job.format));
    attention::forward_item(job, items[index], attention::Pieces(scratch + thread * floats, floats));
  });
  if (args.cache.own != nullptr) return;
  const int64_t used = args.seq_offsets[args.sequences], width = args.q_width();
  attention::clear_rows(args.dtype, args.o, width, used, args.tokens);
  if (args.lse == nullptr) return;
  std::fill_n(args.lse + used * args.heads, (args.tokens - used) * args.heads, 0.0f);
}

Bf16Path bf16_path_of(const AttentionArgs& args) {
  return args.dtype == DType::kBF16 ? choose_bf16_path() : Bf16Path::kWidenToF32;
}

void attention_forward(const AttentionArgs& args, std::byte* workspace, ThreadPool& pool) {
  attention_forward_with(best_matmul_kernels(), bf16_path_of(args), args, workspace, pool);
}

}  // namespace spillway::cpu
