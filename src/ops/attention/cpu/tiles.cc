#include "ops/attention/cpu/tiles.h"

#include "base/sizes.h"

namespace spillway::cpu::attention {
namespace {

constexpr int64_t kWordBytes = sizeof(float);

}  // namespace

// Returns the largest need of the items of both passes. An item of keys takes less than one of queries.
int64_t thread_floats(int64_t head_size) {
  const int64_t width = padded_head(head_size);
  const int64_t query_item = (3 * kItemHeads * kMaxRowTile + 4 * kColumnTile) * width + 2 * kMaxRowTile * kColumnTile +
                             2 * kItemHeads * kMaxRowTile;
  const int64_t sequence_item = (7 * kColumnTile + 2 * MatmulKernels::kMaxPanelWords) * width +
                                2 * kColumnTile * kColumnTile + (2 + MatmulKernels::kMaxPanelWords) * kColumnTile;
  return align_up(std::max(query_item, sequence_item), 16);
}

int64_t sequence_floats(int64_t queries, int64_t keys, int64_t head_size) {
  const int64_t width = padded_head(head_size);
  return align_up(queries * width, 16) + 2 * align_up(keys * width, 16);
}

int64_t max_sequence_floats(int64_t tokens, int64_t key_tokens, int64_t head_size) {
  return std::min(sequence_floats(tokens, key_tokens, head_size), kMaxSequenceFloats);
}

void pack_rows(const Tile& tile, const HeadView& view, float* out) {
  const PanelSource source{view.data, view.dtype, view.stride, true, tile.format};
  const MatmulKernels::Tiles& products = tile.products();
  const int64_t panel_words = tile.height() * products.left_units(tile.units(tile.head_size));
  for (int64_t panel = 0; panel < tile.panels(); ++panel) {
    products.pack_left(source, {panel * tile.height(), tile.panel_rows(panel), tile.height(), 0, tile.head_size},
                       out + panel * panel_words);
  }
}

void pack_tokens(const Tile& tile, const HeadView& view, float* out) {
  const PanelSource source{view.data, view.dtype, view.stride, true, tile.format};
  const int64_t width = tile.products().columns;
  for (int64_t first = 0; first < align_up(tile.columns, kScoreGranule); first += width) {
    tile.kernels.pack(source, {first, tile.columns - first, width, 0, tile.head_size},
                      out + first * tile.units(tile.head_size));
  }
}

void pack_features(const Tile& tile, const HeadView& view, float* out) {
  const PanelSource source{view.data, view.dtype, view.stride, false, tile.format};
  const int64_t width = tile.products().columns;
  for (int64_t first = 0; first < padded_head(tile.head_size); first += width) {
    tile.kernels.pack(source, {first, tile.head_size - first, width, 0, tile.columns},
                      out + first * tile.units(tile.columns));
  }
}

void multiply_scores(const Tile& tile, int64_t panel, const float* rows, const float* tokens, float* scores) {
  const MatmulKernels::Tiles& products = tile.products();
  const int64_t units = tile.units(tile.head_size), height = tile.height();
  const RowSpan span = tile.panel_span(panel);
  const TileLeft left = products.packed(rows + panel * height * products.left_units(units), height);
  for (int64_t column = span.begin; column < span.end; column += products.columns) {
    tile.product(tile.panel_rows(panel))(left, tokens + column * units, units, scores + column, kColumnTile, false);
  }
}

void add_weighted(const Tile& tile, int64_t panel, const float* weights, const float* features, float* sums) {
  const MatmulKernels::Tiles& products = tile.products();
  const int64_t width = padded_head(tile.head_size);
  const RowSpan span = tile.panel_span(panel);
  const int64_t columns = std::min(span.end, tile.columns) - span.begin, row = panel * tile.height();
  if (columns <= 0) return;
  // A span begins at a whole granule, hence at a whole block of pairs.
  const int64_t first = tile.units(span.begin);
  const TileLeft left = products.in_place(weights + first, kColumnTile * kWordBytes);
  for (int64_t column = 0; column < width; column += products.columns) {
    const float* right = features + column * tile.units(tile.columns) + first * products.columns;
    tile.product(tile.panel_rows(panel))(left, right, tile.units(columns), sums + row * width + column, width, true);
  }
}

void write_rows(const Tile& tile, const float* sums, const HeadView& out) {
  const TileTarget target{.c = const_cast<char*>(out.data), .c_dtype = out.dtype, .c_stride = out.stride};
  tile.kernels.finish(sums, padded_head(tile.head_size), target, {0, tile.rows, 0, tile.head_size});
}

int64_t Items::count() const {
  int64_t tiles = 0;
  for_each_sequence(job_.args, [&](const Sequence& sequence) {
    tiles += div_ceil(rows_of(sequence), rows_per_item_);
    return true;
  });
  return tiles * per_tile();
}

Item Items::operator[](int64_t index) const {
  int64_t tile = index / per_tile();
  Item item;
  for_each_sequence(job_.args, [&](const Sequence& sequence) {
    const int64_t rows = rows_of(sequence), tiles = div_ceil(rows, rows_per_item_);
    if (tile >= tiles) {
      tile -= tiles;
      return true;
    }
    item.sequence = sequence;
    item.row = sequence.past + (tiles - 1 - tile) * rows_per_item_;
    item.row_end = std::min(sequence.past + rows, item.row + rows_per_item_);
    return false;
  });
  item.kv_head = index % per_tile() / chunks_;
  const int64_t first = item.kv_head * job_.group();
  item.head = first + index % chunks_ * heads_per_item_;
  item.head_end = std::min(first + job_.group(), item.head + heads_per_item_);
  return item;
}

Items items_of_queries(const Job& job) {
  const int64_t heads = std::min(job.group(), kItemHeads);
  return {job, true, heads, job.row_tile() * (job.args.is_causal ? 1 : kItemHeads / heads)};
}

Items items_of_keys(const Job& job) {
  return {job, false, job.group(), job.row_tile() * (job.args.is_causal ? 1 : kKeyItemTiles)};
}

Tile make_tile(const Job& job, const Item& item, bool rows_are_queries) {
  return {.kernels = job.kernels,
          .format = job.format,
          .mask = {rows_are_queries, job.args.is_causal, job.args.window,
                   rows_are_queries ? item.sequence.keys : item.sequence.end()},
          .head_size = job.args.head_size,
          .row = item.row,
          .rows = item.row_end - item.row,
          .column = 0,
          .columns = 0};
}

void clear_rows(DType dtype, void* data, int64_t width, int64_t first, int64_t end) {
  const int64_t row_bytes = width * size_of(dtype);
  fill_memory(static_cast<char*>(data) + first * row_bytes, 0, (end - first) * row_bytes);
}

PanelFormat format_of(const AttentionArgs& args, Bf16Path path) {
  return args.dtype == DType::kBF16 && path == Bf16Path::kNativeDot ? PanelFormat::kBF16Pairs : PanelFormat::kF32;
}

void check(const MatmulKernels& kernels, const AttentionArgs& args, const std::byte* workspace) {
  SPILLWAY_CHECK(args.kv_heads > 0 && args.heads % args.kv_heads == 0, "{} heads, {} key heads", args.heads,
                 args.kv_heads);
  SPILLWAY_CHECK(args.dtype == DType::kF32 || args.dtype == DType::kBF16, "attention of {}", name_of(args.dtype));
  SPILLWAY_CHECK(
      args.cache.own != nullptr || (args.seq_offsets[0] == 0 && args.seq_offsets[args.sequences] <= args.tokens),
      "sequences up to {} of {}", args.seq_offsets[args.sequences], args.tokens);
  SPILLWAY_CHECK(args.is_causal ? args.key_offsets == nullptr : args.window == 0 && args.cache.own == nullptr,
                 "attention without a mask that has a window of {}", args.window);
  SPILLWAY_CHECK(
      args.key_offsets == nullptr || (args.key_offsets[0] == 0 && args.key_offsets[args.sequences] <= args.key_tokens),
      "keys of {} rows", args.key_tokens);
  for (const MatmulKernels::Tiles& tiles : {kernels.f32, kernels.bf16}) {
    SPILLWAY_CHECK(tiles.rows == 0 || (kScoreGranule % tiles.columns == 0 && kScoreGranule / 2 % tiles.block == 0),
                   "tiles of {} columns, blocks of {}", tiles.columns, tiles.block);
  }
  SPILLWAY_CHECK(reinterpret_cast<uintptr_t>(workspace) % 64 == 0, "a workspace that is not 64-byte aligned");
}

}  // namespace spillway::cpu::attention
