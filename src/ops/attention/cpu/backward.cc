// The work items of the backward pass. If there are enough short sequences for all threads, an item is a key head of a
// sequence: it walks over tiles of keys and the queries that see them, and sums dq, dk and dv. Else there are items of
// two kinds, each of which computes scores, so that no two write to one place: dq takes a tile of queries of a few
// heads that share a key head, and walks over the keys they see; dk and dv take a tile of keys, and walk over the heads
// of the group and the queries that see them. That is 7 products in place of 5. Sums run in the same order either way,
// so that both have the same bits.
#include <algorithm>

#include "backend/cpu/for_each.h"
#include "base/sizes.h"
#include "ops/attention/cpu/passes.h"
#include "ops/attention/cpu/tiles.h"

namespace spillway::cpu::attention {
namespace {

void query_grad_item(const Job& job, const AttentionGradArgs& grad, const float* delta, const Item& item,
                     Pieces pieces) {
  const AttentionArgs& args = job.args;
  const int64_t width = padded_head(args.head_size);
  float* queries = pieces.take(kItemHeads * kMaxRowTile * width);
  float* d_outputs = pieces.take(kItemHeads * kMaxRowTile * width);
  float* sums = pieces.take(kItemHeads * kMaxRowTile * width);
  float* keys = pieces.take(kColumnTile * args.head_size);
  float* values = pieces.take(kColumnTile * args.head_size);
  float* key_features = pieces.take(kColumnTile * width);
  float* scores = pieces.take(MatmulKernels::kMaxRows * kColumnTile);
  float* d_scores = pieces.take(MatmulKernels::kMaxRows * kColumnTile);

  Tile tile = make_tile(job, item, true);
  const int64_t token = item.sequence.token, key = item.sequence.key;
  for_each_slot(job, item, tile, [&](int64_t slot, int64_t head) {
    const int64_t into = slot * kMaxRowTile * width;
    pack_rows(tile, job.query(token + tile.row, head), queries + into);
    pack_rows(tile, job.output(grad.d_o, token + tile.row, head), d_outputs + into);
  });
  std::fill_n(sums, kItemHeads * kMaxRowTile * width, 0.0f);

  const int64_t key_end = job.key_end(item.sequence, item.row_end);
  for (tile.column = job.first_key_tile(item.row); tile.column < key_end; tile.column += kColumnTile) {
    tile.columns = std::min(kColumnTile, key_end - tile.column);
    pack_tokens(tile, job.key(key + tile.column, item.kv_head), keys);
    pack_tokens(tile, job.value(key + tile.column, item.kv_head), values);
    pack_features(tile, job.key(key + tile.column, item.kv_head), key_features);
    for_each_slot(job, item, tile, [&](int64_t slot, int64_t head) {
      const int64_t into = slot * kMaxRowTile * width;
      for (int64_t panel = 0; panel < tile.panels(); ++panel) {
        multiply_scores(tile, panel, queries + into, keys, scores);
        multiply_scores(tile, panel, d_outputs + into, values, d_scores);
        for_each_row(tile, panel, [&](int64_t row, int64_t panel_row, const RowSpan& span) {
          const int64_t at = (token + tile.row + row) * args.heads + head;
          softmax_grad_row(scores + panel_row * kColumnTile, d_scores + panel_row * kColumnTile, span, args.scores,
                           args.lse[at], delta[at], tile.format);
        });
        add_weighted(tile, panel, d_scores, key_features, sums + into);
      }
    });
  }
  for_each_slot(job, item, tile, [&](int64_t slot, int64_t head) {
    write_rows(tile, sums + slot * kMaxRowTile * width, job.view(grad.dq, args.q_width(), token + tile.row, head));
  });
}

// Clears weights that are not seen, which have no score: if the tile is read the other way around, they count as zero.
void clear_unseen(const Tile& tile, float* weights) {
  const int64_t elem_bytes = tile.format == PanelFormat::kBF16Pairs ? size_of(DType::kBF16) : size_of(DType::kF32);
  const int64_t columns = align_up(tile.columns, kScoreGranule);
  for (int64_t row = 0; row < tile.rows; ++row) {
    const RowSpan span = tile.panel_span(row / tile.height());
    auto* bytes = reinterpret_cast<std::byte*>(weights + row * kColumnTile);
    fill_memory(bytes, 0, span.begin * elem_bytes);
    fill_memory(bytes + span.end * elem_bytes, 0, (columns - span.end) * elem_bytes);
  }
}

// Computes sums [columns, padded head] += transposed weights x features, for a tile whose rows are keys and whose
// columns are queries. `features` are those of the rows; `panel` holds a left panel of as many words along k as there
// are rows.
void add_transposed(const Tile& tile, const float* weights, const float* features, float* panel, float* sums) {
  const MatmulKernels::Tiles& products = tile.products();
  const int64_t width = padded_head(tile.head_size), height = tile.height();
  const bool pairs = tile.format == PanelFormat::kBF16Pairs;
  const PanelSource source{weights, pairs ? DType::kBF16 : DType::kF32, pairs ? 2 * kColumnTile : kColumnTile, false,
                           tile.format};
  for (int64_t query = 0; query < tile.columns; query += height) {
    const int64_t count = std::min(height, tile.columns - query);
    const int64_t last = tile.column + query + count;
    const int64_t seen = tile.mask.is_causal ? std::clamp<int64_t>(last - tile.row, 0, tile.rows) : tile.rows;
    if (seen == 0) continue;
    products.pack_left(source, {query, count, height, 0, seen}, panel);
    const TileLeft left = products.packed(panel, height);
    for (int64_t column = 0; column < width; column += products.columns) {
      tile.product(count)(left, features + column * tile.units(tile.rows), tile.units(seen),
                          sums + query * width + column, width, true);
    }
  }
}

// The columns of a key tile: queries of one head, and the numbers that their rows of scores need.
struct QueryTile {
  float *queries, *d_outputs, *query_features, *d_output_features, *lse, *delta;

  QueryTile(int64_t head_size, Pieces& pieces)
      : queries(pieces.take(kColumnTile * head_size)),
        d_outputs(pieces.take(kColumnTile * head_size)),
        query_features(pieces.take(kColumnTile * padded_head(head_size))),
        d_output_features(pieces.take(kColumnTile * padded_head(head_size))),
        lse(pieces.take(kColumnTile)),
        delta(pieces.take(kColumnTile)) {}

  void read(const Job& job, const AttentionGradArgs& grad, const float* all_delta, const Tile& tile, int64_t token,
            int64_t head) const {
    const HeadView query = job.query(token + tile.column, head);
    const HeadView d_output = job.output(grad.d_o, token + tile.column, head);
    pack_tokens(tile, query, queries);
    pack_tokens(tile, d_output, d_outputs);
    pack_features(tile, query, query_features);
    pack_features(tile, d_output, d_output_features);
    for (int64_t i = 0; i < kColumnTile; ++i) {
      const int64_t at = (token + tile.column + i) * job.args.heads + head;
      lse[i] = i < tile.columns ? job.args.lse[at] : 0;
      delta[i] = i < tile.columns ? all_delta[at] : 0;
    }
  }
};

// Tiles of `rows` keys each: their panels, the last one padded, and, for a tile of queries, the scores of one panel and
// the gradients of all.
struct KeyTile {
  int64_t tile_floats;
  float *keys, *values, *scores, *d_scores;

  KeyTile(int64_t rows, int64_t tiles, int64_t head_size, Pieces& pieces)
      : tile_floats(rows * padded_head(head_size)),
        keys(pieces.take((rows * tiles + MatmulKernels::kMaxPanelWords) * padded_head(head_size))),
        values(pieces.take((rows * tiles + MatmulKernels::kMaxPanelWords) * padded_head(head_size))),
        scores(pieces.take(MatmulKernels::kMaxRows * kColumnTile)),
        d_scores(pieces.take(rows * kColumnTile)) {}

  void read(const Job& job, const Tile& tile, int64_t first_key, int64_t kv_head, int64_t slot) const {
    pack_rows(tile, job.key(first_key + tile.row, kv_head), keys + slot * tile_floats);
    pack_rows(tile, job.value(first_key + tile.row, kv_head), values + slot * tile_floats);
  }

  // Fills d_scores with the gradients of scores, and adds the contributions of these and of the probabilities to dk and
  // dv.
  void add(const Tile& tile, int64_t slot, const ScoreMap& map, const QueryTile& queries, float* key_sums,
           float* value_sums) const {
    for (int64_t panel = 0; panel < tile.panels(); ++panel) {
      float* gradients = d_scores + panel * tile.height() * kColumnTile;
      multiply_scores(tile, panel, keys + slot * tile_floats, queries.queries, scores);
      multiply_scores(tile, panel, values + slot * tile_floats, queries.d_outputs, gradients);
      for_each_row(tile, panel, [&](int64_t, int64_t row, const RowSpan& span) {
        softmax_grad_columns(scores + row * kColumnTile, gradients + row * kColumnTile, span, map, queries.lse,
                             queries.delta, tile.format);
      });
      add_weighted(tile, panel, scores, queries.d_output_features, value_sums);
      add_weighted(tile, panel, gradients, queries.query_features, key_sums);
    }
  }
};

void key_grad_item(const Job& job, const AttentionGradArgs& grad, const float* delta, const Item& item, Pieces pieces) {
  const AttentionArgs& args = job.args;
  const int64_t width = padded_head(args.head_size), token = item.sequence.token, first_key = item.sequence.key;
  const KeyTile keys(kMaxRowTile, kKeyItemTiles, args.head_size, pieces);
  const QueryTile queries(args.head_size, pieces);
  constexpr int64_t kRows = kKeyItemTiles * kMaxRowTile;
  float* key_sums = pieces.take(kRows * width);
  float* value_sums = pieces.take(kRows * width);
  std::fill_n(key_sums, kRows * width, 0.0f);
  std::fill_n(value_sums, kRows * width, 0.0f);

  Tile tile = make_tile(job, item, false);
  // All heads go to the same sums, so that slots are for tiles of rows.
  const Item rows{.head = 0, .head_end = 1, .row = item.row, .row_end = item.row_end};
  for_each_slot(job, rows, tile, [&](int64_t slot, int64_t) { keys.read(job, tile, first_key, item.kv_head, slot); });
  const int64_t last_query = tile.mask.end(item.row_end - 1);
  for (int64_t head = item.head; head < item.head_end; ++head) {
    for (tile.column = job.first_query_tile(item.row); tile.column < last_query; tile.column += kColumnTile) {
      tile.columns = std::min(kColumnTile, last_query - tile.column);
      queries.read(job, grad, delta, tile, token, head);
      for_each_slot(job, rows, tile, [&](int64_t slot, int64_t) {
        const int64_t at = slot * kMaxRowTile * width;
        keys.add(tile, slot, args.scores, queries, key_sums + at, value_sums + at);
      });
    }
  }
  for_each_slot(job, rows, tile, [&](int64_t slot, int64_t) {
    const int64_t at = slot * kMaxRowTile * width, key = first_key + tile.row;
    write_rows(tile, key_sums + at, job.view(grad.dk, args.k_width(), key, item.kv_head));
    write_rows(tile, value_sums + at, job.view(grad.dv, args.k_width(), key, item.kv_head));
  });
}

// Computes dq, dk and dv of a key head of one sequence. Tiles of keys have as many rows as the tiles that dq sums over
// elsewhere have columns. Heads of the group come one after the other, so that sums of one dq suffice; each packs the
// keys anew.
void sequence_grad_item(const Job& job, const AttentionGradArgs& grad, const float* delta, const Sequence& sequence,
                        int64_t kv_head, Pieces pieces) {
  const AttentionArgs& args = job.args;
  const int64_t width = padded_head(args.head_size), token = sequence.token, first_key = sequence.key;
  const int64_t query_floats = sequence.length * width, key_floats = sequence.keys * width;
  const KeyTile keys(kColumnTile, 1, args.head_size, pieces);
  const QueryTile queries(args.head_size, pieces);
  float* key_features = pieces.take(kColumnTile * width);
  float* panel = pieces.take(kColumnTile * MatmulKernels::kMaxPanelWords);
  float* query_sums = pieces.take(query_floats);
  float* key_sums = pieces.take(key_floats);
  float* value_sums = pieces.take(key_floats);
  std::fill_n(key_sums, key_floats, 0.0f);
  std::fill_n(value_sums, key_floats, 0.0f);

  const Item queries_of_all{.sequence = sequence, .row = 0, .row_end = sequence.length};
  const Item keys_of_all{.sequence = sequence, .row = 0, .row_end = sequence.keys};
  for (int64_t head = kv_head * job.group(); head < (kv_head + 1) * job.group(); ++head) {
    std::fill_n(query_sums, query_floats, 0.0f);
    for (int64_t row = 0; row < sequence.keys; row += kColumnTile) {
      Item item = keys_of_all;
      item.row = row;
      item.row_end = std::min(sequence.keys, row + kColumnTile);
      Tile tile = make_tile(job, item, false);
      keys.read(job, tile, first_key, kv_head, 0);
      Tile as_columns = tile;
      as_columns.columns = tile.rows;
      pack_features(as_columns, job.key(first_key + row, kv_head), key_features);
      const int64_t last_query = tile.mask.end(item.row_end - 1);
      for (tile.column = job.first_query_tile(row); tile.column < last_query; tile.column += kColumnTile) {
        tile.columns = std::min(kColumnTile, last_query - tile.column);
        queries.read(job, grad, delta, tile, token, head);
        keys.add(tile, 0, args.scores, queries, key_sums + row * width, value_sums + row * width);
        clear_unseen(tile, keys.d_scores);
        add_transposed(tile, keys.d_scores, key_features, panel, query_sums + tile.column * width);
      }
    }
    write_rows(make_tile(job, queries_of_all, true), query_sums, job.view(grad.dq, args.q_width(), token, head));
  }
  write_rows(make_tile(job, keys_of_all, false), key_sums, job.view(grad.dk, args.k_width(), first_key, kv_head));
  write_rows(make_tile(job, keys_of_all, false), value_sums, job.view(grad.dv, args.k_width(), first_key, kv_head));
}

// Computes delta[token, head] = sum over the head of d_o * o.
void compute_delta(const AttentionArgs& args, const void* d_o, float* delta, ThreadPool& pool) {
  constexpr int64_t kGrain = 64;
  pool.parallel_for(args.seq_offsets[args.sequences] * args.heads, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * args.head_size;
      delta[i] =
          args.dtype == DType::kF32
              ? dot_row(static_cast<const float*>(d_o) + at, static_cast<const float*>(args.o) + at, args.head_size)
              : dot_row(static_cast<const bf16*>(d_o) + at, static_cast<const bf16*>(args.o) + at, args.head_size);
    }
  });
}

// Writes the gradients of the sinks, whose sums go over tokens in their order.
void write_sink_gradients(const AttentionGradArgs& grad, const float* delta, ThreadPool& pool) {
  const AttentionArgs& args = grad.forward;
  for_each(pool, args.heads, [&](int64_t head, int) {
    double sum = 0;
    const int64_t end = args.seq_offsets[args.sequences] * args.heads;
    for (int64_t at = head; at < end; at += args.heads) sum += args.sinks.gradient(head, args.lse[at], delta[at]);
    if (grad.d_sinks_dtype == DType::kF32) {
      static_cast<float*>(grad.d_sinks)[head] = static_cast<float>(sum);
    } else {
      static_cast<bf16*>(grad.d_sinks)[head] = to_bf16(static_cast<float>(sum));
    }
  });
}

}  // namespace
}  // namespace spillway::cpu::attention

namespace spillway::cpu {

int64_t attention_backward_workspace_bytes(int64_t tokens, int64_t key_tokens, int64_t heads, int64_t head_size,
                                           int threads) {
  const int64_t sums = threads * attention::max_sequence_floats(tokens, key_tokens, head_size);
  return attention_workspace_bytes(tokens, heads, head_size, threads) + sums * static_cast<int64_t>(sizeof(float));
}

BackwardItems backward_items(const AttentionArgs& args, int threads) {
  constexpr int64_t kItemsPerThread = 4;  // so that threads end at about the same time
  int64_t floats = 0;
  for (int64_t i = 0; i < args.sequences; ++i) {
    const attention::Sequence sequence = attention::sequence_at(args, i);
    floats = std::max(floats, attention::sequence_floats(sequence.length, sequence.keys, args.head_size));
  }
  const bool is_short = floats <= attention::max_sequence_floats(args.tokens, args.key_rows(), args.head_size);
  const bool suffice = args.sequences * args.kv_heads >= kItemsPerThread * threads;
  return is_short && suffice ? BackwardItems::kSequences : BackwardItems::kTiles;
}

void attention_backward_with(const MatmulKernels& kernels, Bf16Path path, BackwardItems items,
                             const AttentionGradArgs& grad, std::byte* workspace, ThreadPool& pool) {
  const AttentionArgs& args = grad.forward;
  attention::check(kernels, args, workspace);
  float* delta = reinterpret_cast<float*>(workspace);
  float* scratch = delta + attention::shared_floats(args.tokens, args.heads);
  const int64_t floats = attention::thread_floats(args.head_size) +
                         attention::max_sequence_floats(args.tokens, args.key_rows(), args.head_size);
  const auto pieces = [&](int thread) { return attention::Pieces(scratch + thread * floats, floats); };
  attention::compute_delta(args, grad.d_o, delta, pool);

  const attention::Job job{kernels, attention::format_of(args, path), args};
  if (items == BackwardItems::kSequences) {
    for_each(pool, args.sequences * args.kv_heads, [&](int64_t index, int thread) {
      const TileRun run(kernels.of(job.format));
      const attention::Sequence sequence = attention::sequence_at(args, index / args.kv_heads);
      attention::sequence_grad_item(job, grad, delta, sequence, index % args.kv_heads, pieces(thread));
    });
  } else {
    const attention::Items query_items = attention::items_of_queries(job), key_items = attention::items_of_keys(job);
    const int64_t query_count = query_items.count(), key_count = key_items.count();
    for_each(pool, query_count + key_count, [&](int64_t index, int thread) {
      const TileRun run(kernels.of(job.format));
      if (index < key_count) {
        attention::key_grad_item(job, grad, delta, key_items[index], pieces(thread));
      } else {
        attention::query_grad_item(job, grad, delta, query_items[index - key_count], pieces(thread));
      }
    });
  }
  const int64_t used = args.seq_offsets[args.sequences], used_keys = args.offsets_of_keys()[args.sequences];
  attention::clear_rows(args.dtype, grad.dq, args.q_width(), used, args.tokens);
  attention::clear_rows(args.dtype, grad.dk, args.k_width(), used_keys, args.key_rows());
  attention::clear_rows(args.dtype, grad.dv, args.k_width(), used_keys, args.key_rows());
  if (grad.d_sinks != nullptr) attention::write_sink_gradients(grad, delta, pool);
}

void attention_backward(const AttentionGradArgs& args, std::byte* workspace, ThreadPool& pool) {
  attention_backward_with(best_matmul_kernels(), bf16_path_of(args.forward),
                          backward_items(args.forward, pool.threads()), args, workspace, pool);
}

}  // namespace spillway::cpu
