// Work items: the forward pass and dq take a tile of queries of a few heads that share a key head, and walk over the
// keys they see; dk and dv take a tile of keys, and walk over the heads of the group and the queries that see them.
// Scores are computed anew in each, so that no two items write to one place.
#include "backend/cpu/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/attention_rows.h"
#include "backend/cpu/for_each.h"
#include "backend/cpu/matmul_kernels.h"
#include "base/math.h"

namespace spillway::cpu {
namespace {

constexpr int64_t kRowTile = 84;      // a multiple of every kernel's rows
constexpr int64_t kColumnTile = 128;  // part of the numerics: a row's sums are added up tile by tile
constexpr int64_t kItemHeads = 4;     // heads that share one packing of keys and values
constexpr int64_t kWordBytes = sizeof(float);

int64_t padded_head(int64_t head_size) { return align_up(head_size, MatmulKernels::kMostColumns); }

int64_t thread_floats(int64_t head_size) {
  const int64_t row_parts = 3 * kItemHeads * kRowTile, column_parts = 4 * kColumnTile;
  return align_up((row_parts + column_parts) * padded_head(head_size) + 2 * kRowTile * kColumnTile + 2 * kColumnTile +
                      2 * kItemHeads * kRowTile,
                  16);
}

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

struct Sequence {
  int64_t token, length;
};

// One head of a tensor, from one token on.
struct HeadView {
  const char* data;
  DType dtype;
  int64_t stride;
};
HeadView head_view(const void* data, DType dtype, int64_t stride, int64_t token, int64_t head, int64_t head_size) {
  return {static_cast<const char*>(data) + (token * stride + head * head_size) * size_of(dtype), dtype, stride};
}

// Which columns of a tile a row sees. Queries as rows see keys up to their own; keys as rows are seen by queries from
// their own on. Positions count from the start of the sequence.
struct Mask {
  bool rows_are_queries;
  int64_t window, length;

  [[nodiscard]] int64_t begin(int64_t row) const {
    if (!rows_are_queries) return row;
    return window > 0 ? std::max<int64_t>(0, row - window + 1) : 0;
  }
  [[nodiscard]] int64_t end(int64_t row) const {
    if (rows_are_queries) return row + 1;
    return window > 0 ? std::min(length, row + window) : length;
  }
};

// A tile of rows against a tile of columns.
struct Tile {
  const MatmulKernels& kernels;
  Mask mask;
  int64_t head_size;
  int64_t row, rows, column, columns;

  [[nodiscard]] int64_t panels() const { return div_ceil(rows, kernels.rows); }
  [[nodiscard]] int64_t panel_rows(int64_t panel) const {
    return std::min<int64_t>(kernels.rows, rows - panel * kernels.rows);
  }

  // The columns that any row of a panel sees, in whole granules; begin == end for none.
  [[nodiscard]] RowSpan panel_span(int64_t panel) const {
    const int64_t first = row + panel * kernels.rows, last = first + panel_rows(panel) - 1;
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

// Rows of a head as left panels [panel][S][kernel rows].
void pack_rows(const Tile& tile, const HeadView& view, float* out) {
  const PanelSource source{view.data, view.dtype, view.stride, true, PanelFormat::kF32};
  const int64_t height = tile.kernels.rows;
  for (int64_t panel = 0; panel < tile.panels(); ++panel) {
    tile.kernels.pack(source, {panel * height, tile.panel_rows(panel), height, 0, tile.head_size},
                      out + panel * height * tile.head_size);
  }
}

// Tokens as columns, summing over the head: [panel][S][kernel columns].
void pack_tokens(const Tile& tile, const HeadView& view, float* out) {
  const PanelSource source{view.data, view.dtype, view.stride, true, PanelFormat::kF32};
  const int64_t width = tile.kernels.columns;
  for (int64_t first = 0; first < align_up(tile.columns, kScoreGranule); first += width) {
    tile.kernels.pack(source, {first, tile.columns - first, width, 0, tile.head_size}, out + first * tile.head_size);
  }
}

// The head as columns, summing over tokens: [panel][tokens][kernel columns].
void pack_features(const Tile& tile, const HeadView& view, float* out) {
  const PanelSource source{view.data, view.dtype, view.stride, false, PanelFormat::kF32};
  const int64_t width = tile.kernels.columns;
  for (int64_t first = 0; first < padded_head(tile.head_size); first += width) {
    tile.kernels.pack(source, {first, tile.head_size - first, width, 0, tile.columns}, out + first * tile.columns);
  }
}

// scores [rows, kColumnTile] = rows x tokens, where any row of the panel sees them.
void multiply_scores(const Tile& tile, const float* rows, const float* tokens, float* scores) {
  const MatmulKernels& kernels = tile.kernels;
  for (int64_t panel = 0; panel < tile.panels(); ++panel) {
    const RowSpan span = tile.panel_span(panel);
    const TileLeft left{rows + panel * kernels.rows * tile.head_size, kWordBytes, kernels.rows * kWordBytes};
    for (int64_t column = span.begin; column < span.end; column += kernels.columns) {
      kernels.f32[tile.panel_rows(panel) - 1](left, tokens + column * tile.head_size, tile.head_size,
                                              scores + panel * kernels.rows * kColumnTile + column, kColumnTile, false);
    }
  }
}

// sums [rows, padded head] += weights [rows, kColumnTile] x features.
void add_weighted(const Tile& tile, const float* weights, const float* features, float* sums) {
  const MatmulKernels& kernels = tile.kernels;
  const int64_t width = padded_head(tile.head_size);
  for (int64_t panel = 0; panel < tile.panels(); ++panel) {
    const RowSpan span = tile.panel_span(panel);
    const int64_t units = std::min(span.end, tile.columns) - span.begin, row = panel * kernels.rows;
    if (units <= 0) continue;
    const TileLeft left{weights + row * kColumnTile + span.begin, kColumnTile * kWordBytes, kWordBytes};
    for (int64_t column = 0; column < width; column += kernels.columns) {
      const float* right = features + column * tile.columns + span.begin * kernels.columns;
      kernels.f32[tile.panel_rows(panel) - 1](left, right, units, sums + row * width + column, width, true);
    }
  }
}

// Calls body(row of the tile, span) for every row whose panel sees anything.
template <typename Body>
void for_each_row(const Tile& tile, const Body& body) {
  for (int64_t panel = 0; panel < tile.panels(); ++panel) {
    const RowSpan span = tile.panel_span(panel);
    if (span.begin == span.end) continue;
    const int64_t first = panel * tile.kernels.rows;
    for (int64_t row = first; row < first + tile.panel_rows(panel); ++row) body(row, tile.row_span(span, row));
  }
}

// out[row, :] = factor * sums[row, :], in the output's type.
void write_rows(const Tile& tile, const float* sums, const HeadView& out) {
  const TileTarget target{.c = const_cast<char*>(out.data), .c_dtype = out.dtype, .c_stride = out.stride};
  tile.kernels.finish(sums, padded_head(tile.head_size), target, {0, tile.rows, 0, tile.head_size});
}

struct Job {
  const MatmulKernels& kernels;
  const AttentionArgs& args;

  [[nodiscard]] int64_t group() const { return args.heads / args.kv_heads; }
  [[nodiscard]] Sequence sequence(int64_t index) const {
    return {args.seq_offsets[index], args.seq_offsets[index + 1] - args.seq_offsets[index]};
  }
  [[nodiscard]] HeadView query(int64_t token, int64_t head) const {
    return head_view(args.q, args.dtype, args.q_stride, token, head, args.head_size);
  }
  [[nodiscard]] HeadView key(int64_t token, int64_t kv_head) const {
    return head_view(args.k, args.dtype, args.k_stride, token, kv_head, args.head_size);
  }
  [[nodiscard]] HeadView value(int64_t token, int64_t kv_head) const {
    return head_view(args.v, args.dtype, args.v_stride, token, kv_head, args.head_size);
  }
  [[nodiscard]] HeadView output(const void* o, int64_t token, int64_t head) const {
    return head_view(o, args.dtype, args.heads * args.head_size, token, head, args.head_size);
  }
  [[nodiscard]] int64_t first_key_tile(int64_t query) const {
    const int64_t first = args.window > 0 ? std::max<int64_t>(0, query - args.window + 1) : 0;
    return first / kColumnTile * kColumnTile;
  }
};

// A tile of rows of one sequence, of heads [head, head_end) of one key head.
struct Item {
  Sequence sequence;
  int64_t kv_head, head, head_end, row, row_end;
};

// Items of all sequences; within a sequence, later tiles, which see more keys, come first.
class Items {
 public:
  Items(const Job& job, int64_t heads_per_item)
      : job_(job), heads_per_item_(heads_per_item), chunks_(div_ceil(job.group(), heads_per_item)) {}

  [[nodiscard]] int64_t count() const {
    int64_t tiles = 0;
    for (int64_t s = 0; s < job_.args.sequences; ++s) tiles += div_ceil(job_.sequence(s).length, kRowTile);
    return tiles * per_tile();
  }
  [[nodiscard]] Item operator[](int64_t index) const {
    int64_t tile = index / per_tile(), s = 0;
    for (;; ++s) {
      const int64_t tiles = div_ceil(job_.sequence(s).length, kRowTile);
      if (tile < tiles) {
        tile = tiles - 1 - tile;
        break;
      }
      tile -= tiles;
    }
    Item item{.sequence = job_.sequence(s)};
    item.kv_head = index % per_tile() / chunks_;
    const int64_t first = item.kv_head * job_.group();
    item.head = first + index % chunks_ * heads_per_item_;
    item.head_end = std::min(first + job_.group(), item.head + heads_per_item_);
    item.row = tile * kRowTile;
    item.row_end = std::min(item.sequence.length, item.row + kRowTile);
    return item;
  }

 private:
  [[nodiscard]] int64_t per_tile() const { return job_.args.kv_heads * chunks_; }

  const Job& job_;
  int64_t heads_per_item_, chunks_;
};

Tile make_tile(const Job& job, const Item& item, bool rows_are_queries) {
  return {.kernels = job.kernels,
          .mask = {rows_are_queries, job.args.window, item.sequence.length},
          .head_size = job.args.head_size,
          .row = item.row,
          .rows = item.row_end - item.row,
          .column = 0,
          .columns = 0};
}

void forward_item(const Job& job, const Item& item, Pieces pieces) {
  const AttentionArgs& args = job.args;
  const int64_t width = padded_head(args.head_size), heads = item.head_end - item.head;
  float* queries = pieces.take(kItemHeads * kRowTile * args.head_size);
  float* sums = pieces.take(kItemHeads * kRowTile * width);
  float* keys = pieces.take(kColumnTile * args.head_size);
  float* values = pieces.take(kColumnTile * width);
  float* scores = pieces.take(kRowTile * kColumnTile);
  auto* states = reinterpret_cast<SoftmaxState*>(pieces.take(2 * kItemHeads * kRowTile));

  Tile tile = make_tile(job, item, true);
  const int64_t token = item.sequence.token;
  for (int64_t h = 0; h < heads; ++h) {
    pack_rows(tile, job.query(token + item.row, item.head + h), queries + h * kRowTile * args.head_size);
  }
  std::fill_n(sums, kItemHeads * kRowTile * width, 0.0f);
  std::fill_n(states, kItemHeads * kRowTile, SoftmaxState{-std::numeric_limits<float>::infinity(), 0});

  for (tile.column = job.first_key_tile(item.row); tile.column < item.row_end; tile.column += kColumnTile) {
    tile.columns = std::min(kColumnTile, item.row_end - tile.column);
    pack_tokens(tile, job.key(token + tile.column, item.kv_head), keys);
    pack_features(tile, job.value(token + tile.column, item.kv_head), values);
    for (int64_t h = 0; h < heads; ++h) {
      float* head_sums = sums + h * kRowTile * width;
      multiply_scores(tile, queries + h * kRowTile * args.head_size, keys, scores);
      for_each_row(tile, [&](int64_t row, const RowSpan& span) {
        const float factor = softmax_row(scores + row * kColumnTile, span, args.scale, states[h * kRowTile + row]);
        if (factor != 1) scale_row(head_sums + row * width, width, factor);
      });
      add_weighted(tile, scores, values, head_sums);
    }
  }

  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t row = 0; row < tile.rows; ++row) {
      const SoftmaxState& state = states[h * kRowTile + row];
      scale_row(sums + (h * kRowTile + row) * width, width, 1 / state.sum);
      args.lse[(token + item.row + row) * args.heads + item.head + h] = state.maximum + std::log(state.sum);
    }
    write_rows(tile, sums + h * kRowTile * width, job.output(args.o, token + item.row, item.head + h));
  }
}

void query_grad_item(const Job& job, const AttentionGradArgs& grad, const float* delta, const Item& item,
                     Pieces pieces) {
  const AttentionArgs& args = job.args;
  const int64_t width = padded_head(args.head_size), heads = item.head_end - item.head;
  float* queries = pieces.take(kItemHeads * kRowTile * args.head_size);
  float* d_outputs = pieces.take(kItemHeads * kRowTile * args.head_size);
  float* sums = pieces.take(kItemHeads * kRowTile * width);
  float* keys = pieces.take(kColumnTile * args.head_size);
  float* values = pieces.take(kColumnTile * args.head_size);
  float* key_features = pieces.take(kColumnTile * width);
  float* scores = pieces.take(kRowTile * kColumnTile);
  float* d_scores = pieces.take(kRowTile * kColumnTile);

  Tile tile = make_tile(job, item, true);
  const int64_t token = item.sequence.token;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t into = h * kRowTile * args.head_size;
    pack_rows(tile, job.query(token + item.row, item.head + h), queries + into);
    pack_rows(tile, job.output(grad.d_o, token + item.row, item.head + h), d_outputs + into);
  }
  std::fill_n(sums, kItemHeads * kRowTile * width, 0.0f);

  for (tile.column = job.first_key_tile(item.row); tile.column < item.row_end; tile.column += kColumnTile) {
    tile.columns = std::min(kColumnTile, item.row_end - tile.column);
    pack_tokens(tile, job.key(token + tile.column, item.kv_head), keys);
    pack_tokens(tile, job.value(token + tile.column, item.kv_head), values);
    pack_features(tile, job.key(token + tile.column, item.kv_head), key_features);
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t into = h * kRowTile * args.head_size;
      multiply_scores(tile, queries + into, keys, scores);
      multiply_scores(tile, d_outputs + into, values, d_scores);
      for_each_row(tile, [&](int64_t row, const RowSpan& span) {
        const int64_t at = (token + item.row + row) * args.heads + item.head + h;
        softmax_grad_row(scores + row * kColumnTile, d_scores + row * kColumnTile, span, args.scale, args.lse[at],
                         delta[at]);
      });
      add_weighted(tile, d_scores, key_features, sums + h * kRowTile * width);
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    const HeadView out = head_view(grad.dq, args.dtype, args.q_stride, token + item.row, item.head + h, args.head_size);
    write_rows(tile, sums + h * kRowTile * width, out);
  }
}

void key_grad_item(const Job& job, const AttentionGradArgs& grad, const float* delta, const Item& item, Pieces pieces) {
  const AttentionArgs& args = job.args;
  const int64_t width = padded_head(args.head_size);
  float* keys = pieces.take(kRowTile * args.head_size);
  float* values = pieces.take(kRowTile * args.head_size);
  float* key_sums = pieces.take(kRowTile * width);
  float* value_sums = pieces.take(kRowTile * width);
  float* queries = pieces.take(kColumnTile * args.head_size);
  float* d_outputs = pieces.take(kColumnTile * args.head_size);
  float* query_features = pieces.take(kColumnTile * width);
  float* d_output_features = pieces.take(kColumnTile * width);
  float* scores = pieces.take(kRowTile * kColumnTile);
  float* d_scores = pieces.take(kRowTile * kColumnTile);
  float* column_lse = pieces.take(kColumnTile);
  float* column_delta = pieces.take(kColumnTile);

  Tile tile = make_tile(job, item, false);
  const int64_t token = item.sequence.token;
  pack_rows(tile, job.key(token + item.row, item.kv_head), keys);
  pack_rows(tile, job.value(token + item.row, item.kv_head), values);
  std::fill_n(key_sums, kRowTile * width, 0.0f);
  std::fill_n(value_sums, kRowTile * width, 0.0f);

  const int64_t last_query = tile.mask.end(item.row_end - 1);
  for (int64_t head = item.head; head < item.head_end; ++head) {
    for (tile.column = item.row / kColumnTile * kColumnTile; tile.column < last_query; tile.column += kColumnTile) {
      tile.columns = std::min(kColumnTile, last_query - tile.column);
      const HeadView query = job.query(token + tile.column, head);
      const HeadView d_output = job.output(grad.d_o, token + tile.column, head);
      pack_tokens(tile, query, queries);
      pack_tokens(tile, d_output, d_outputs);
      pack_features(tile, query, query_features);
      pack_features(tile, d_output, d_output_features);
      for (int64_t i = 0; i < kColumnTile; ++i) {
        const int64_t at = (token + tile.column + i) * args.heads + head;
        column_lse[i] = i < tile.columns ? args.lse[at] : 0;
        column_delta[i] = i < tile.columns ? delta[at] : 0;
      }
      multiply_scores(tile, keys, queries, scores);
      multiply_scores(tile, values, d_outputs, d_scores);
      for_each_row(tile, [&](int64_t row, const RowSpan& span) {
        softmax_grad_columns(scores + row * kColumnTile, d_scores + row * kColumnTile, span, args.scale, column_lse,
                             column_delta);
      });
      add_weighted(tile, scores, d_output_features, value_sums);
      add_weighted(tile, d_scores, query_features, key_sums);
    }
  }
  const auto out = [&](void* data, int64_t stride) {
    return head_view(data, args.dtype, stride, token + item.row, item.kv_head, args.head_size);
  };
  write_rows(tile, key_sums, out(grad.dk, args.k_stride));
  write_rows(tile, value_sums, out(grad.dv, args.v_stride));
}

// delta[token, head] = sum over the head of d_o * o.
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

// Zeros in the rows of tokens that belong to no sequence.
void clear_rest(const AttentionArgs& args, void* data, int64_t stride, int64_t columns) {
  for (int64_t token = args.seq_offsets[args.sequences]; token < args.tokens; ++token) {
    std::memset(static_cast<char*>(data) + token * stride * size_of(args.dtype), 0,
                static_cast<size_t>(columns * size_of(args.dtype)));
  }
}

void check(const MatmulKernels& kernels, const AttentionArgs& args, const std::byte* workspace) {
  SPILLWAY_CHECK(args.kv_heads > 0 && args.heads % args.kv_heads == 0, "{} heads, {} key heads", args.heads,
                 args.kv_heads);
  SPILLWAY_CHECK(args.dtype == DType::kF32 || args.dtype == DType::kBF16, "attention of {}", name_of(args.dtype));
  SPILLWAY_CHECK(args.seq_offsets[0] == 0 && args.seq_offsets[args.sequences] <= args.tokens,
                 "sequences up to {} of {}", args.seq_offsets[args.sequences], args.tokens);
  SPILLWAY_CHECK(kRowTile % kernels.rows == 0 && kScoreGranule % kernels.columns == 0, "tiles of {} x {}", kernels.rows,
                 kernels.columns);
  SPILLWAY_CHECK(reinterpret_cast<uintptr_t>(workspace) % 64 == 0, "a workspace that is not 64-byte aligned");
}

}  // namespace

int64_t attention_workspace_bytes(int64_t tokens, int64_t heads, int64_t, int64_t head_size, int threads) {
  return (align_up(tokens * heads, 16) + threads * thread_floats(head_size)) * kWordBytes;
}

void attention_forward_with(const MatmulKernels& kernels, const AttentionArgs& args, std::byte* workspace,
                            ThreadPool& pool) {
  check(kernels, args, workspace);
  const Job job{kernels, args};
  const Items items(job, std::min(job.group(), kItemHeads));
  float* scratch = reinterpret_cast<float*>(workspace) + align_up(args.tokens * args.heads, 16);
  const int64_t floats = thread_floats(args.head_size);
  for_each(pool, items.count(), [&](int64_t index, int thread) {
    forward_item(job, items[index], Pieces(scratch + thread * floats, floats));
  });
  clear_rest(args, args.o, args.heads * args.head_size, args.heads * args.head_size);
  const int64_t used = args.seq_offsets[args.sequences] * args.heads;
  std::fill_n(args.lse + used, args.tokens * args.heads - used, 0.0f);
}

void attention_backward_with(const MatmulKernels& kernels, const AttentionGradArgs& grad, std::byte* workspace,
                             ThreadPool& pool) {
  const AttentionArgs& args = grad.forward;
  check(kernels, args, workspace);
  float* delta = reinterpret_cast<float*>(workspace);
  float* scratch = delta + align_up(args.tokens * args.heads, 16);
  const int64_t floats = thread_floats(args.head_size);
  compute_delta(args, grad.d_o, delta, pool);

  const Job job{kernels, args};
  const Items query_items(job, std::min(job.group(), kItemHeads)), key_items(job, job.group());
  const int64_t query_count = query_items.count(), key_count = key_items.count();
  for_each(pool, query_count + key_count, [&](int64_t index, int thread) {
    const Pieces pieces(scratch + thread * floats, floats);
    if (index < key_count) {
      key_grad_item(job, grad, delta, key_items[index], pieces);
    } else {
      query_grad_item(job, grad, delta, query_items[index - key_count], pieces);
    }
  });
  clear_rest(args, grad.dq, args.q_stride, args.heads * args.head_size);
  clear_rest(args, grad.dk, args.k_stride, args.kv_heads * args.head_size);
  clear_rest(args, grad.dv, args.v_stride, args.kv_heads * args.head_size);
}

void attention_forward(const AttentionArgs& args, std::byte* workspace, ThreadPool& pool) {
  attention_forward_with(best_matmul_kernels(), args, workspace, pool);
}

void attention_backward(const AttentionGradArgs& args, std::byte* workspace, ThreadPool& pool) {
  attention_backward_with(best_matmul_kernels(), args, workspace, pool);
}

}  // namespace spillway::cpu
