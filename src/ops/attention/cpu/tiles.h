// Shared parts of attention's forward and backward pass: tiles of rows against tiles of columns, the products over
// them, and the items of work that a stream is cut into.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "base/math.h"
#include "ops/attention/cpu/passes.h"
#include "ops/attention/cpu/rows.h"
#include "ops/matmul/cpu/kernels.h"

namespace spillway::cpu::attention {

constexpr int64_t kMaxRowTile = 96;   // rows of a tile: as many whole panels of the kernel as fit
constexpr int64_t kColumnTile = 128;  // part of the numerics: a row's sums are added up tile by tile
constexpr int64_t kItemHeads = 4;     // heads that share one packing of keys and values, times tiles of their rows
constexpr int64_t kKeyItemTiles = 2;  // tiles of keys that share one packing of queries
constexpr int64_t kMaxSequenceFloats = 1 << 18;

[[nodiscard]] inline int64_t padded_head(int64_t head_size) { return align_up(head_size, MatmulKernels::kMaxColumns); }

// The workspace: a float for each token and head, then a part for each thread.
[[nodiscard]] inline int64_t shared_floats(int64_t tokens, int64_t heads) { return align_up(tokens * heads, 16); }
[[nodiscard]] int64_t thread_floats(int64_t head_size);
// The backward pass needs more for each thread: the sums of a sequence's dq, dk and dv, if they are not too many.
[[nodiscard]] int64_t sequence_floats(int64_t queries, int64_t keys, int64_t head_size);
[[nodiscard]] int64_t max_sequence_floats(int64_t tokens, int64_t key_tokens, int64_t head_size);

// Hands out consecutive pieces of a thread's workspace.
class Pieces {
 public:
  Pieces(float* begin, int64_t floats) : next_(begin), end_(begin + floats) {}
  float* take(int64_t floats) {
    float* piece = next_;
    next_ += align_up(floats, 16);
    SPILLWAY_CHECK(next_ <= end_, "attention workspace");
    return piece;
  }

 private:
  float *next_, *end_;
};

// Neighbouring tokens of the stream that are queries of one sequence. Rows and columns of tiles count from that
// sequence's start: the queries are [past, past + length), and key i < keys is row key + i of k and v.
struct Sequence {
  int64_t token = 0, length = 0;
  int64_t key = 0, keys = 0;
  int64_t past = 0;

  // Returns the position in the stream of a row's query.
  [[nodiscard]] int64_t token_of(int64_t row) const { return token + row - past; }
  [[nodiscard]] int64_t end() const { return past + length; }
};

// Returns sequence `s` of a stream; not for a cache.
[[nodiscard]] inline Sequence sequence_at(const AttentionArgs& args, int64_t s) {
  const int32_t *tokens = args.seq_offsets + s, *keys = args.offsets_of_keys() + s;
  return {.token = tokens[0], .length = tokens[1] - tokens[0], .key = keys[0], .keys = keys[1] - keys[0]};
}

// Calls visit(sequence) until it returns false.
template <typename Visit>
void for_each_sequence(const AttentionArgs& args, const Visit& visit) {
  if (args.cache.own == nullptr) {
    for (int64_t s = 0; s < args.sequences; ++s) {
      if (!visit(sequence_at(args, s))) return;
    }
    return;
  }
  const auto [first, own] = args.cache;
  for (int64_t begin = 0, end = 0; begin < args.tokens; begin = end) {
    for (end = begin + 1; end < args.tokens && first[end] == first[begin] && own[end] == own[end - 1] + 1; ++end) {
    }
    const int64_t past = own[begin] - first[begin], length = end - begin;
    if (!visit(Sequence{begin, length, first[begin], past + length, past})) return;
  }
}

// One head of a tensor, from one token on.
struct HeadView {
  const char* data;
  DType dtype;
  int64_t stride;
};

// The columns of a tile that a row sees, of all columns of its sequence. If causal, queries as rows see keys up to
// their own; keys as rows are seen by queries from their own on. Positions count from the start of the sequence.
struct Mask {
  bool rows_are_queries, is_causal;
  int64_t window, all;

  [[nodiscard]] int64_t begin(int64_t row) const {
    if (!is_causal) return 0;
    if (!rows_are_queries) return row;
    return ops::first_key_seen<int64_t>(row, 0, window);
  }
  [[nodiscard]] int64_t end(int64_t row) const {
    if (!is_causal) return all;
    if (rows_are_queries) return row + 1;
    return ops::end_of_seeing(row, all, window);
  }
};

// A tile of rows against a tile of columns. Its products are of f32, or of pairs of bf16, with sums in f32 either way.
struct Tile {
  const MatmulKernels& kernels;
  PanelFormat format;
  Mask mask;
  int64_t head_size;
  int64_t row, rows, column, columns;

  // Returns the words that `elems` neighbours along k take in a panel.
  [[nodiscard]] int64_t units(int64_t elems) const {
    return format == PanelFormat::kBF16Pairs ? div_ceil(elems, 2) : elems;
  }
  [[nodiscard]] const MatmulKernels::Tiles& products() const { return kernels.of(format); }
  [[nodiscard]] MatmulKernels::Tile product(int64_t rows_of_panel) const { return products().wide[rows_of_panel - 1]; }

  // Returns the rows of every panel but the last.
  [[nodiscard]] int64_t height() const { return products().rows; }
  [[nodiscard]] int64_t panels() const { return div_ceil(rows, height()); }
  [[nodiscard]] int64_t panel_rows(int64_t panel) const { return std::min(height(), rows - panel * height()); }

  // Returns the columns that any row of a panel sees, in whole granules; begin == end for none.
  [[nodiscard]] RowSpan panel_span(int64_t panel) const {
    const int64_t first = row + panel * height(), last = first + panel_rows(panel) - 1;
    const int64_t begin = std::max<int64_t>(0, mask.begin(first) - column);
    const int64_t end = std::min(columns, mask.end(last) - column);
    if (begin >= end) return {0, 0, 0, 0};
    return {begin / kScoreGranule * kScoreGranule, align_up(end, kScoreGranule), 0, 0};
  }
  [[nodiscard]] RowSpan row_span(const RowSpan& panel, int64_t panel_row) const {
    const int64_t begin = std::clamp(mask.begin(row + panel_row) - column, panel.begin, panel.end);
    const int64_t end = std::clamp(std::min(columns, mask.end(row + panel_row) - column), begin, panel.end);
    return {panel.begin, panel.end, begin, end};
  }
};

// Write panels of words, units(S) or units(tokens) of them along k. This one writes rows of a head as left panels of S
// along k. They take kMaxRowTile * padded_head() words at most.
void pack_rows(const Tile& tile, const HeadView& view, float* out);
// Writes tokens as columns, summing over the head: [panel][S][kernel columns].
void pack_tokens(const Tile& tile, const HeadView& view, float* out);
// Writes the head as columns, summing over tokens: [panel][tokens][kernel columns].
void pack_features(const Tile& tile, const HeadView& view, float* out);

// The following work on one panel of a tile's rows, so that its scores are still in the first cache when they are read.
// Computes scores [rows of the panel, kColumnTile] = rows x tokens, where any row of the panel sees them.
void multiply_scores(const Tile& tile, int64_t panel, const float* rows, const float* tokens, float* scores);
// Computes sums [rows of the tile, padded head] += weights x features. Weights are rows of kColumnTile words, those of
// the panel: f32, or the tile's columns as bf16 from the row's start.
void add_weighted(const Tile& tile, int64_t panel, const float* weights, const float* features, float* sums);
// Writes rows of sums [rows, padded head] in the type of `out`.
void write_rows(const Tile& tile, const float* sums, const HeadView& out);

// Calls body(row of the tile, row of the panel, span) for every row of a panel that sees anything.
template <typename Body>
void for_each_row(const Tile& tile, int64_t panel, const Body& body) {
  const RowSpan span = tile.panel_span(panel);
  if (span.begin == span.end) return;
  const int64_t first = panel * tile.height();
  for (int64_t row = 0; row < tile.panel_rows(panel); ++row) body(first + row, row, tile.row_span(span, first + row));
}

// A call, with its kernels and the format of its products.
struct Job {
  const MatmulKernels& kernels;
  PanelFormat format;
  const AttentionArgs& args;

  [[nodiscard]] int64_t group() const { return args.heads / args.kv_heads; }
  // Returns the rows of a tile, if its sequence has as many.
  [[nodiscard]] int64_t row_tile() const {
    const int64_t rows = kernels.of(format).rows;
    return kMaxRowTile / rows * rows;
  }
  [[nodiscard]] HeadView view(const void* data, int64_t stride, int64_t token, int64_t head) const {
    const int64_t elem = token * stride + head * args.head_size;
    return {static_cast<const char*>(data) + elem * size_of(args.dtype), args.dtype, stride};
  }
  [[nodiscard]] HeadView query(int64_t token, int64_t head) const { return view(args.q, args.q_width(), token, head); }
  [[nodiscard]] HeadView key(int64_t token, int64_t kv_head) const {
    return view(args.k, args.k_width(), token, kv_head);
  }
  [[nodiscard]] HeadView value(int64_t token, int64_t kv_head) const {
    return view(args.v, args.k_width(), token, kv_head);
  }
  [[nodiscard]] HeadView output(const void* o, int64_t token, int64_t head) const {
    return view(o, args.q_width(), token, head);
  }
  [[nodiscard]] int64_t first_key_tile(int64_t query) const {
    return ops::first_key_seen<int64_t>(query, 0, args.window) / kColumnTile * kColumnTile;
  }
  // Returns the end of the keys that queries of a sequence before `query_end` see.
  [[nodiscard]] int64_t key_end(const Sequence& sequence, int64_t query_end) const {
    return args.is_causal ? query_end : sequence.keys;
  }
  // Returns the beginning of the tiles of queries that see a key, or one after it.
  [[nodiscard]] int64_t first_query_tile(int64_t key) const {
    return args.is_causal ? key / kColumnTile * kColumnTile : 0;
  }
};

// A tile of rows of one sequence, of heads [head, head_end) of one key head.
struct Item {
  Sequence sequence;
  int64_t kv_head = 0, head = 0, head_end = 0, row = 0, row_end = 0;
};

// The items of all sequences, whose rows are queries or keys; within a sequence, later tiles, which as queries see more
// keys, come first.
class Items {
 public:
  Items(const Job& job, bool rows_are_queries, int64_t heads_per_item, int64_t rows_per_item)
      : job_(job),
        rows_are_queries_(rows_are_queries),
        heads_per_item_(heads_per_item),
        rows_per_item_(rows_per_item),
        chunks_(div_ceil(job.group(), heads_per_item)) {}

  [[nodiscard]] int64_t count() const;
  [[nodiscard]] Item operator[](int64_t index) const;

 private:
  [[nodiscard]] int64_t per_tile() const { return job_.args.kv_heads * chunks_; }
  [[nodiscard]] int64_t rows_of(const Sequence& sequence) const {
    return rows_are_queries_ ? sequence.length : sequence.keys;
  }

  const Job& job_;
  bool rows_are_queries_;
  int64_t heads_per_item_, rows_per_item_, chunks_;
};

// Returns the items of queries. If every tile of a sequence's queries sees the same keys, several of a head share their
// packing as heads of a group do.
[[nodiscard]] Items items_of_queries(const Job& job);
// Returns the items of keys, with all heads of a group.
[[nodiscard]] Items items_of_keys(const Job& job);

// Calls body(slot, head) for each head of an item of queries and each tile of its rows, to which it sets `tile`.
template <typename Body>
void for_each_slot(const Job& job, const Item& item, Tile& tile, const Body& body) {
  const int64_t rows = job.row_tile();
  int64_t slot = 0;
  for (int64_t head = item.head; head < item.head_end; ++head) {
    for (tile.row = item.row; tile.row < item.row_end; tile.row += rows, ++slot) {
      tile.rows = std::min(rows, item.row_end - tile.row);
      body(slot, head);
    }
  }
}

// Returns a tile with the rows of an item, with no columns yet.
[[nodiscard]] Tile make_tile(const Job& job, const Item& item, bool rows_are_queries);

// Writes zeros in the rows from `first` to `end`, those of tokens that belong to no sequence.
void clear_rows(DType dtype, void* data, int64_t width, int64_t first, int64_t end);

// Returns pairs of bf16 if the data are bf16 and the path is for them.
[[nodiscard]] PanelFormat format_of(const AttentionArgs& args, Bf16Path path);

// Stops the program if the arguments break what either pass requires.
void check(const MatmulKernels& kernels, const AttentionArgs& args, const std::byte* workspace);

}  // namespace spillway::cpu::attention
