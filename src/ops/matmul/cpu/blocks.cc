#include "ops/matmul/cpu/blocks.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/math.h"

namespace spillway::cpu {
namespace {

constexpr int64_t kTasksPerThread = 6, kFewTasksPerThread = 2;
constexpr int64_t kStripUnits = 32;      // of k, at most, for strips
constexpr int64_t kMinCachedPanels = 4;  // of rows: with fewer, right panels would be read from memory too often
constexpr int64_t kCacheWay = 4096;      // bytes after which a first-level cache uses the same set again
constexpr int64_t kMaxBlockElems = 32;   // of a left panel's row: what lies together has zeros behind k

int64_t tile_depth(const MatmulKernels::Tiles& tiles, int64_t units) {
  const int64_t depths = std::max<int64_t>(1, div_ceil(units, tiles.depth));
  return std::max<int64_t>(1, align_up(div_ceil(units, depths), 16));
}

// Returns true if parts of the right operand's memory rows, which run across k, would be read again and again, for one
// block of a long k after the other.
bool reads_parts_of_rows(const MatmulJob& job) { return job.blocks_wait() && !job.right.source.k_contiguous; }

void choose_blocks(MatmulJob& job, const MatmulShape& shape) {
  job.height = std::max<int64_t>(1, div_ceil(job.m, std::max<int64_t>(1, div_ceil(job.m, job.tiles.rows))));
  job.row_panels = div_ceil(job.m, job.height);
  job.column_panels = div_ceil(job.n, job.columns);
  job.depth = tile_depth(job.tiles, job.units);
  job.block_units = job.direct ? job.units : std::min(job.units, kMaxUnits / job.depth * job.depth);
  if (job.tiles.waits_for_memory && !job.direct && job.k > kMaxUnits) {
    const int64_t cached = job.tiles.left_words / (job.height * job.row_panels) / job.depth * job.depth;
    job.block_units = std::clamp(cached, job.depth, job.block_units);
  } else if (!job.direct && reads_parts_of_rows(job)) {
    const int64_t both = job.height * job.row_panels + job.columns * job.column_panels;
    const int64_t shared = shared_panel_words(shape) / both / job.depth * job.depth;
    if (shared >= 2 * job.depth) job.block_units = std::min(shared, job.block_units);
  }
  const int64_t max_panels = kPackedWords / std::max<int64_t>(1, job.panel_words());
  const int64_t blocks = job.direct ? 1 : div_ceil(job.row_panels, max_panels);
  job.block_row_panels = div_ceil(job.row_panels, blocks);
  job.block_column_panels = job.column_panels;
  if (job.blocks_wait()) {
    const int64_t panels = kWaitingSums / (job.block_row_panels * job.tile_words());
    job.block_column_panels = std::min(job.column_panels, panels);
  }
}

// Returns the row panels whose words stay in the second cache, and, where sums wait, whose sums have room beside
// `columns` column panels.
int64_t cached_row_panels(const MatmulJob& job, int64_t columns) {
  const int64_t by_words = job.tiles.left_words / (job.height * std::max<int64_t>(1, job.block_units));
  if (!job.sums_wait()) return by_words;
  const int64_t by_sums = kTaskSums / (columns * job.tile_words());
  return job.tiles.waits_for_memory && by_words >= kMinCachedPanels ? std::min(by_words, by_sums) : by_sums;
}

// Shares right panels if they fit and tasks would pack them more than once, or would read parts of memory rows that run
// across k; and strips need all of them.
void choose_sharing(MatmulJob& job, const MatmulShape& shape) {
  if ((!job.tiles.waits_for_memory && !reads_parts_of_rows(job)) || job.streams() || job.reads_right) return;
  const bool short_k = job.direct && !job.swapped && job.units <= kStripUnits && job.column_panels > 1;
  const bool packed_again = job.block_row_panels > cached_row_panels(job, kMaxGroup);
  if (!short_k && !packed_again && !reads_parts_of_rows(job)) return;
  const int64_t room = shared_panel_words(shape) - job.left_block_words();
  const int64_t panels = room / (job.columns * std::max<int64_t>(1, job.block_units));
  if (panels < std::min(kMaxGroup, job.block_column_panels)) return;
  job.shares_right = true;
  job.block_column_panels = div_ceil(job.block_column_panels, div_ceil(job.block_column_panels, panels));
  job.in_strips = short_k;
}

void choose_tasks(MatmulJob& job, int threads) {
  // A product of few rows only reads its right operand: one panel then stays in the first-level cache.
  const bool few_rows = job.row_panels < kMaxGroup && !job.reads_right && !job.streams();
  // Lines of memory rows that run across k are read together, though.
  const bool reads_parts = few_rows && job.tiles.waits_for_memory && !job.right.source.k_contiguous;
  int64_t columns = few_rows && !reads_parts ? 1 : std::min(job.block_column_panels, kMaxGroup);
  if (job.in_strips) columns = std::min(job.block_column_panels, kTaskSums / job.tile_words());
  // Uses fewer columns, if the sums of all rows then have room: each task packs its own.
  if (job.sums_wait() && !job.tiles.waits_for_memory && job.block_row_panels * job.tile_words() <= kTaskSums)
    columns = std::min(columns, kTaskSums / (job.block_row_panels * job.tile_words()));
  int64_t rows = std::clamp<int64_t>(cached_row_panels(job, columns), 1, job.block_row_panels);
  rows = div_ceil(job.block_row_panels, div_ceil(job.block_row_panels, rows));
  const auto tasks = [&] { return div_ceil(job.block_row_panels, rows) * div_ceil(job.block_column_panels, columns); };
  // Every task packs its columns, which is expensive beside few rows; and data from memory should be read once.
  const int64_t wanted = (job.reads_right || reads_parts ? kFewTasksPerThread : kTasksPerThread) * threads;
  const bool splits_rows_first = job.reads_right || job.in_strips;
  while (threads > 1 && tasks() < wanted && rows * columns > 1) {
    if (columns > 1 && !(splits_rows_first && rows > 1)) {
      columns = div_ceil(columns, 2);
    } else {
      rows = div_ceil(rows, 2);
    }
  }
  job.task_row_panels = div_ceil(job.block_row_panels, div_ceil(job.block_row_panels, rows));
  job.task_column_panels = columns;
}

// Returns true if rows of words need no packing: they lie as the tiles require, and their distance does not put them
// all into one set of the first cache.
bool can_read_directly(const MatmulOperand& operand, int64_t k) {
  const PanelSource& left = operand.source;
  if (operand.decoder != nullptr) return false;
  const bool words = left.format == PanelFormat::kBF16Pairs ? k % 2 == 0 : left.dtype == DType::kF32;
  return left.k_contiguous && words && left.stride * size_of(left.dtype) % kCacheWay != 0;
}

// Returns true if a product has so few rows that packing the right operand would take longer than the product. It is
// then read in place, if possible, as the left operand of C's transpose.
bool better_in_place(const MatmulKernels::Tiles& tiles, const MatmulOperand& right, const MatmulShape& shape) {
  return shape.m <= tiles.few_rows && 4 * shape.m <= shape.n && can_read_directly(right, shape.k);
}

// Returns tiles for codes of a format, or null if none decodes such rows.
const MatmulKernels::CodedTile* choose_coded(const MatmulKernels::Tiles& tiles, const MatmulOperand& right, int64_t k) {
  const CodedRows& rows = right.decoder->rows;
  if (rows.codes == nullptr || rows.scale_elems % CodedPanel::kElems != 0 || k % rows.scale_elems != 0) return nullptr;
  const int64_t unit_elems = right.source.format == PanelFormat::kBF16Pairs ? 2 : 1;
  const bool whole_depths = tile_depth(tiles, k / unit_elems) * unit_elems % CodedPanel::kElems == 0;
  if (!whole_depths || k / rows.scale_elems > kMaxRowScales) return nullptr;
  return tiles.streamed->coded(rows.table != nullptr, rows.to_bf16 || right.source.dtype == DType::kBF16);
}

// The way in which whole right panels are multiplied as they are read or decoded: by one of both, or, without columns,
// not at all.
struct Streaming {
  const MatmulKernels::StreamedTile* elements = nullptr;
  const MatmulKernels::CodedTile* coded = nullptr;
  int columns = 0;
};

// Chooses for few rows `m`, if the right operand's vectors lie along memory rows.
Streaming choose_streaming(const MatmulKernels::Tiles& tiles, const MatmulOperand& right, int64_t m, int64_t n,
                           int64_t k) {
  const MatmulKernels::Streamed* const streamed = tiles.streamed;
  if (streamed == nullptr || !right.source.k_contiguous) return {};
  const bool widened =
      right.decoder == nullptr && right.source.format == PanelFormat::kF32 && right.source.dtype == DType::kBF16;
  if (m > (widened ? streamed->max_widened_rows : streamed->max_rows)) return {};
  if (right.decoder != nullptr) {
    const MatmulKernels::CodedTile* const coded = choose_coded(tiles, right, k);
    return {.coded = coded, .columns = coded != nullptr ? streamed->code_columns : 0};
  }
  if (n < streamed->element_columns) return {};
  return {.elements = widened ? streamed->widened : streamed->elements, .columns = streamed->element_columns};
}

// Returns true if C's transpose should be computed, so that the long side is columns of tiles, where it is packed
// several times faster than as rows.
bool better_swapped(const MatmulOperand& left, const MatmulShape& shape) {
  return !can_read_directly(left, shape.k) && shape.n <= kMaxSwapped && 4 * shape.n <= shape.m;
}

// Returns true if the lines of C are better written past the caches: those that no next reader would find there, and
// that no addend has brought there.
bool goes_past_caches(const MatmulKernels::Tiles& tiles, const MatmulArgs& args, bool swapped) {
  constexpr int64_t kLine = 64;
  const int64_t elem_bytes = size_of(args.c_dtype), row_bytes = args.c_stride * elem_bytes;
  return tiles.waits_for_memory && !swapped && args.addend != args.c && args.shape.m * row_bytes > kCachedBytes &&
         row_bytes % kLine == 0 && reinterpret_cast<uintptr_t>(args.c) % kLine == 0;
}

MatmulTail tail_of(const MatmulArgs& args, const MatmulKernels::Tiles& tiles, PanelFormat format, bool swapped) {
  const MatmulShape& shape = args.shape;
  if (shape.tail == 0) return {};
  // Whole blocks, filled with zeros: tiles of another depth would set up their registers anew.
  const int64_t units = tiles.left_units(format == PanelFormat::kBF16Pairs ? div_ceil(shape.tail, 2) : shape.tail);
  MatmulTail tail{.left = {args.tail_a.data, args.tail_a.dtype, args.tail_a.stride, !shape.transpose_a, format},
                  .right = {args.tail_b.data, args.tail_b.dtype, args.tail_b.stride, shape.transpose_b, format},
                  .k = shape.tail,
                  .units = units,
                  .depth = tile_depth(tiles, units),
                  .scales_left = !swapped,
                  .factor = args.tail_alpha / args.alpha};
  if (swapped) std::swap(tail.left, tail.right);
  return tail;
}

}  // namespace

int64_t tail_panel_words(const MatmulShape& shape) {
  constexpr int64_t kPadding = MatmulKernels::kMaxRows + MatmulKernels::kMaxColumns;
  if (shape.tail == 0) return 0;
  return align_up((shape.m + shape.n + kPadding) * align_up(shape.tail, kMaxBlockElems), 16);
}

int64_t shared_panel_words(const MatmulShape& shape) {
  const int64_t rows = std::max(shape.m, std::min(shape.n, kMaxSwapped)) + MatmulKernels::kMaxPanelWords;
  return align_up(std::min(kPackedWords, rows * std::min(align_up(shape.k, kMaxBlockElems), kMaxUnits)), 16);
}

MatmulJob cut_matmul(const MatmulKernels& kernels, Bf16Path path, const MatmulArgs& args, int threads) {
  const MatmulShape& shape = args.shape;
  const bool pairs = args.a.dtype == DType::kBF16 && args.b.dtype == DType::kBF16 && path == Bf16Path::kNativeDot;
  const PanelFormat format = pairs ? PanelFormat::kBF16Pairs : PanelFormat::kF32;
  SPILLWAY_CHECK(!pairs || kernels.has_bf16(), "{} has no bf16 tiles", kernels.name);
  const MatmulKernels::Tiles& tiles = kernels.of(format);
  MatmulOperand left{{args.a.data, args.a.dtype, args.a.stride, !shape.transpose_a, format}, args.a.decoder};
  MatmulOperand right{{args.b.data, args.b.dtype, args.b.stride, shape.transpose_b, format}, args.b.decoder};
  int64_t m = shape.m, n = shape.n;
  const bool reads_right = better_in_place(tiles, right, shape);
  const bool swapped = reads_right || better_swapped(left, shape);
  if (swapped) {
    std::swap(left, right);
    std::swap(m, n);
  }
  const TileTarget target{.c = args.c,
                          .c_dtype = args.c_dtype,
                          .c_stride = args.c_stride,
                          .alpha = args.alpha,
                          .addend = args.addend,
                          .addend_dtype = args.addend_dtype,
                          .addend_stride = args.addend_stride,
                          .bias = args.bias,
                          .bias_dtype = args.bias_dtype,
                          .past_caches = goes_past_caches(tiles, args, swapped)};
  const int64_t unit_elems = pairs ? 2 : 1;
  const Streaming streaming = choose_streaming(tiles, right, m, n, shape.k);
  const int columns = streaming.columns > 0    ? streaming.columns
                      : n <= tiles.columns / 2 ? tiles.columns / 2
                                               : tiles.columns;
  MatmulJob job{.kernels = kernels,
                .tiles = tiles,
                .products = columns < tiles.columns ? tiles.narrow : tiles.wide,
                .left = left,
                .right = right,
                .target = target,
                .m = m,
                .n = n,
                .k = shape.k,
                .units = div_ceil(shape.k, unit_elems),
                .unit_elems = unit_elems,
                .swapped = swapped,
                .direct = can_read_directly(left, shape.k),
                .reads_right = reads_right,
                .streamed = streaming.elements,
                .coded = streaming.coded,
                .columns = columns,
                .tail = tail_of(args, tiles, format, swapped)};
  choose_blocks(job, shape);
  choose_sharing(job, shape);
  choose_tasks(job, threads);
  return job;
}

}  // namespace spillway::cpu
