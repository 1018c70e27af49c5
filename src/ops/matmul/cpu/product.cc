// The loops around the tiles, after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008),
// with one change: the right operand is packed by the thread that uses it, a few columns at a time and just before, so
// that it never leaves that core's cache and a product of few rows runs at the speed of reading its weights. Where
// there are so many rows that it would be packed several times, and the left operand is read in place, all threads pack
// it once.
//
//   for each block of rows                the left operand: read where it lies, or packed once by all threads
//     for each block of columns           (one block unless k is so long that sums must wait outside a task, or the
//                                          right operand, if it is packed once, is larger than its room)
//       for each long piece of k          pack the left operand, then tasks of (row panels x column panels):
//         for each depth                  pack the task's columns; for each pair of panels one tile
//
// For few rows (streamed tiles, few_rows.h) the right operand is not packed: its panels, half a tile wide, are
// multiplied one after the other as they are read from memory or decoded.
//
// The bits of an element are fixed by the depth alone: a chain of multiply-adds over it, and those sums added up.
#include "ops/matmul/cpu/product.h"

#include <algorithm>

#include "backend/cpu/for_each.h"
#include "base/math.h"
#include "ops/matmul/cpu/blocks.h"
#include "ops/matmul/cpu/kernels.h"
#include "ops/matmul/cpu/tail.h"

namespace spillway::cpu {
namespace {

using Job = MatmulJob;
using Operand = MatmulOperand;

constexpr int64_t kPackUnits = 16;   // units of k that are packed for all panels at a time
constexpr int64_t kDecodedPad = 64;  // bytes between rows of a matrix that is decoded, beyond what they need

// Returns the most units of k, of either format, that a tile multiplies in one go.
int64_t max_depth(int64_t k) { return std::min(align_up(std::max<int64_t>(k, 1), 16), MatmulKernels::kMaxDepth); }
int64_t column_words(int64_t k) { return MatmulKernels::kMaxColumns * max_depth(k); }
// Returns the bytes per thread for a matrix that is decoded: a panel along k, or the panels of a task across it.
int64_t decoded_bytes(int64_t k) {
  return std::max(MatmulKernels::kMaxColumns * (max_depth(k) * 4 + kDecodedPad),
                  2 * kPackUnits * (kMaxGroup * MatmulKernels::kMaxColumns * 4 + kDecodedPad));
}

struct Workspace {
  float* packed;       // [block_units / depth][block_row_panels][depth][height], or shared right panels
  float* columns;      // a thread: [kMaxGroup][column_words()]
  float* sums;         // a thread: [kTaskSums], or one of [kWaitingSums]
  float* tail;         // [tail_panel_words()]
  std::byte* decoded;  // a thread: [decoded_bytes()], where a matrix is decoded
  int64_t k;

  [[nodiscard]] std::byte* decoded_of(int thread) const { return decoded + thread * decoded_bytes(k); }
  [[nodiscard]] float* columns_of(int thread) const { return columns + thread * kMaxGroup * column_words(k); }
};

// Panels and units, each [begin, end), in terms of the whole product.
struct Block {
  int64_t row_begin, row_end, column_begin, column_end, unit_begin, unit_end;
};

// Returns panel `panel` of the block that starts at panel_begin and unit_begin, at a unit where a tile's depth starts.
float* packed_panel(const Job& job, const Block& block, float* packed, int64_t panel, int64_t unit) {
  const int64_t depth = job.tiles.left_units(std::min(job.depth, block.unit_end - unit));
  const int64_t panels = block.row_end - block.row_begin;
  return packed + ((unit - block.unit_begin) * panels + (panel - block.row_begin) * depth) * job.height;
}

// The panels of one operand.
struct Panels {
  int64_t begin, end, width;  // in vectors; of [0, vectors), the rest is zeros
  int64_t vectors;
  int64_t unit_begin, unit_end;
};

// Decodes the vectors and elements of `range`, which then are those from 0 on.
PanelSource decode(const Operand& operand, const PanelRange& range, std::byte* to) {
  PanelSource result = operand.source;
  const int64_t elems = range.k_end - range.k_begin;
  const MatrixRange stored = result.k_contiguous ? MatrixRange{range.first, range.count, range.k_begin, elems}
                                                 : MatrixRange{range.k_begin, elems, range.first, range.count};
  if (result.format == PanelFormat::kF32) result.dtype = DType::kF32;
  const int64_t elem_bytes = size_of(result.dtype);
  result.stride = (align_up(stored.columns * elem_bytes, kDecodedPad) + kDecodedPad) / elem_bytes;
  result.data = to;
  operand.decoder->decode(operand.decoder->coded, stored, operand.source.dtype, result.dtype, result.stride, to);
  return result;
}

// Packs panels; `place(panel)` returns the target of each.
template <typename Place>
void pack_panels(const Job& job, const Operand& operand, MatmulKernels::Pack pack, const Panels& panels,
                 std::byte* decoded, const Place& place) {
  const int64_t first = panels.begin * panels.width;
  PanelSource source = operand.source;
  PanelRange range{.first = first,
                   .count = std::min(panels.end * panels.width, panels.vectors) - first,
                   .width = panels.width,
                   .k_begin = panels.unit_begin * job.unit_elems,
                   .k_end = std::min(job.k, panels.unit_end * job.unit_elems)};
  if (operand.decoder != nullptr) {
    source = decode(operand, range, decoded);
    range = {.first = 0, .count = range.count, .width = range.width, .k_end = range.k_end - range.k_begin};
  }
  for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
    PanelRange one = range;
    one.count = std::min(range.count, range.width);
    pack(source, one, place(panel));
    range.first += range.width;
    range.count -= range.width;
  }
}

// Packs panels for all tasks. An item is one depth of a panel, or, if k runs down memory rows, a short piece of k of
// all panels, so that these rows are read from end to end. `place(panel, unit, into)` returns the target of a panel
// `into` units behind `unit`, where a tile's depth starts.
template <typename Place>
void pack_for_all(const Job& job, const Operand& operand, MatmulKernels::Pack pack, const Panels& all,
                  const Workspace& workspace, ThreadPool& pool, const Place& place) {
  const bool along_k = operand.source.k_contiguous;
  const int64_t piece = along_k ? job.depth : kPackUnits, pieces = div_ceil(all.unit_end - all.unit_begin, piece);
  const int64_t count = all.end - all.begin;
  // A thread has room to decode the panels of a task.
  const int64_t together = along_k ? 1 : operand.decoder != nullptr ? std::min(count, kMaxGroup) : count;
  for_each(pool, pieces * div_ceil(count, together), [&](int64_t item, int thread) {
    const int64_t begin = all.unit_begin + item % pieces * piece, into = (begin - all.unit_begin) % job.depth;
    Panels part = all;
    part.begin = all.begin + item / pieces * together;
    part.end = std::min(all.end, part.begin + together);
    part.unit_begin = begin;
    part.unit_end = std::min(all.unit_end, begin + piece);
    pack_panels(job, operand, pack, part, workspace.decoded_of(thread),
                [&](int64_t panel) { return place(panel, begin - into, into); });
  });
}

void pack_left(const Job& job, const Block& block, const Workspace& workspace, ThreadPool& pool) {
  const Panels all{block.row_begin, block.row_end, job.height, job.m, block.unit_begin, block.unit_end};
  pack_for_all(job, job.left, job.tiles.pack_left, all, workspace, pool,
               [&](int64_t panel, int64_t unit, int64_t into) {
                 return packed_panel(job, block, workspace.packed, panel, unit) + into * job.height;
               });
}

TileLeft tile_left(const Job& job, const Block& block, float* packed, int64_t panel, int64_t unit) {
  if (!job.direct) return job.tiles.packed(packed_panel(job, block, packed, panel, unit), job.height);
  const PanelSource& left = job.left.source;
  const int64_t elem_bytes = size_of(left.dtype);
  const int64_t elem = panel * job.height * left.stride + unit * job.unit_elems;
  return job.tiles.in_place(static_cast<const char*>(left.data) + elem * elem_bytes, left.stride * elem_bytes);
}

// Packs a task's panels for one depth, column_words() apart; as in pack_for_all(), rows of memory are read from end to
// end.
void pack_right(const Job& job, const Panels& panels, std::byte* decoded, float* out) {
  const bool along_k = job.right.source.k_contiguous;
  const int64_t piece = along_k ? job.depth : kPackUnits, together = along_k ? 1 : panels.end - panels.begin;
  for (int64_t unit = panels.unit_begin; unit < panels.unit_end; unit += piece) {
    for (int64_t panel = panels.begin; panel < panels.end; panel += together) {
      Panels part = panels;
      part.begin = panel;
      part.end = panel + together;
      part.unit_begin = unit;
      part.unit_end = std::min(panels.unit_end, unit + piece);
      pack_panels(job, job.right, job.kernels.pack, part, decoded, [&](int64_t i) {
        return out + (i - panels.begin) * column_words(job.k) + (unit - panels.unit_begin) * job.columns;
      });
    }
  }
}

// Returns a shared right panel: [units / depth][panel][depth][columns] behind the left panels, for a unit where a
// tile's depth starts.
float* shared_panel(const Job& job, const Block& block, float* packed, int64_t panel, int64_t unit) {
  const int64_t depth = std::min(job.depth, block.unit_end - unit), panels = block.column_end - block.column_begin;
  return packed + job.left_block_words() +
         ((unit - block.unit_begin) * panels + (panel - block.column_begin) * depth) * job.columns;
}

void pack_shared(const Job& job, const Block& block, const Workspace& workspace, ThreadPool& pool) {
  const Panels all{block.column_begin, block.column_end, job.columns, job.n, block.unit_begin, block.unit_end};
  pack_for_all(job, job.right, job.kernels.pack, all, workspace, pool, [&](int64_t panel, int64_t unit, int64_t into) {
    return shared_panel(job, block, workspace.packed, panel, unit) + into * job.columns;
  });
}

// Adds the share of one of a row panel's `tiles` in prefetching the rows of the next panel.
void ask_for_next(const Job& job, int64_t row_panel, int64_t tile, int64_t tiles, TileLeft& left) {
  const int64_t share = div_ceil(job.height, tiles), first = share * tile;
  const int64_t rows = std::min(job.height, job.m - (row_panel + 1) * job.height);
  left.ahead = static_cast<const char*>(left.data) + (job.height + first) * left.row_bytes;
  left.ahead_rows = std::max<int64_t>(0, std::min(share, rows - first));
}

void finish(const Job& job, int64_t row_panel, int64_t column_panel, const float* tile) {
  const int64_t row = row_panel * job.height, column = column_panel * job.columns;
  const int64_t rows = std::min(job.height, job.m - row);
  const int64_t columns = std::min(job.columns, job.n - column);
  if (!job.swapped) {
    job.kernels.finish(tile, job.columns, job.target, {row, rows, column, columns});
    return;
  }
  constexpr int64_t kStride = MatmulKernels::kMaxRows;
  alignas(64) float transposed[MatmulKernels::kMaxColumns * kStride];
  job.kernels.pack({.data = tile, .stride = job.columns}, {.count = rows, .width = kStride, .k_end = columns},
                   transposed);
  job.kernels.finish(transposed, kStride, job.target, {column, columns, row, rows});
}

// The places of the sums of one task, which adds the units of `block` to the tiles of `task`, and writes C after the
// last unit. Tile (i, j) of the task sums at sums + (i - sums_row) * row_stride + (j - sums_column) * column_stride.
struct SumsLayout {
  float* sums;
  int64_t row_begin, column_begin, row_stride, column_stride;

  [[nodiscard]] float* at(int64_t row_panel, int64_t column_panel) const {
    return sums + (row_panel - row_begin) * row_stride + (column_panel - column_begin) * column_stride;
  }
};

// Multiplies a task's one right panel without packing it.
class StreamedPanel {
 public:
  // `scratch` holds a panel. Not ready if the panel has to be packed.
  StreamedPanel(const Job& job, int64_t panel, float* scratch)
      : job_(job), first_(panel * job.columns), ready_(job.streams() && first_ + job.columns <= job.n) {
    if (ready_ && job.coded != nullptr) ready_ = prepare_scales(scratch);
  }
  [[nodiscard]] bool ready() const { return ready_; }

  void multiply(const TileLeft& left, int64_t rows, int64_t unit, int64_t units, float* tile) const {
    const int64_t k_begin = unit * job_.unit_elems, k_end = std::min(job_.k, (unit + units) * job_.unit_elems);
    if (job_.coded != nullptr) {
      job_.coded[rows - 1](left, coded_, k_begin, k_end, tile, job_.columns, unit > 0);
    } else {
      const PanelRange range{
          .first = first_, .count = job_.columns, .width = job_.columns, .k_begin = k_begin, .k_end = k_end};
      job_.streamed[rows - 1](left, job_.right.source, range, tile, job_.columns, unit > 0);
    }
  }

 private:
  // Prepares the scales, which are read row by row and used column by column.
  bool prepare_scales(float* scratch) {
    static_assert(2 * kMaxRowScales * MatmulKernels::kMaxColumns / 2 <=
                  kMaxGroup * MatmulKernels::kMaxColumns * MatmulKernels::kMaxDepth);
    const CodedRows& rows = job_.right.decoder->rows;
    const int64_t scales = job_.k / rows.scale_elems, row_bytes = job_.k / (rows.table != nullptr ? 2 : 1);
    float* const by_row = scratch + scales * job_.columns;
    if (!rows.scales(job_.right.decoder->coded, first_, job_.columns, by_row)) return false;
    job_.kernels.pack({.data = by_row, .stride = scales},
                      {.count = job_.columns, .width = job_.columns, .k_end = scales}, scratch);
    coded_ = {.codes = static_cast<const char*>(rows.codes) + first_ * row_bytes,
              .row_bytes = row_bytes,
              .table = rows.table,
              .scales = scratch,
              .scale_elems = rows.scale_elems};
    return true;
  }

  const Job& job_;
  int64_t first_;
  bool ready_;
  CodedPanel coded_;
};

void run_task(const Job& job, const Block& block, const Block& task, const Workspace& workspace, int thread,
              const SumsLayout& layout) {
  const TileRun run(job.tiles);
  const TailPanels tail(job, workspace.tail);
  float* const panels = workspace.columns_of(thread);
  const int64_t rows = task.row_end - task.row_begin, columns = task.column_end - task.column_begin;
  // A tile is finished behind the next product: its sums have reached the cache by then, and the product does not wait.
  struct Pending {
    int64_t row_panel = 0, column_panel = 0;
    const float* tile = nullptr;
  } pending;
  const auto finish_pending = [&] {
    if (pending.tile != nullptr) finish(job, pending.row_panel, pending.column_panel, pending.tile);
  };
  const StreamedPanel streamed(job, task.column_begin, panels);
  int64_t unit = task.unit_begin;
  int64_t tiles = 0;
  do {
    const int64_t depth = std::min(job.depth, task.unit_end - unit);
    const bool last = unit + depth == job.units;
    if (!streamed.ready() && !job.shares_right) {
      pack_right(job, {task.column_begin, task.column_end, job.columns, job.n, unit, unit + depth},
                 workspace.decoded_of(thread), panels);
    }
    for (int64_t index = 0; index < rows * columns; ++index) {
      // The right panel stays in the first cache, or, if rows come from memory, they are used up while the next come.
      const int64_t i = task.row_begin + (job.reads_right ? index / columns : index % rows);
      const int64_t j = task.column_begin + (job.reads_right ? index % columns : index / rows);
      TileLeft left = tile_left(job, block, workspace.packed, i, unit);
      if (job.reads_right) ask_for_next(job, i, j - task.column_begin, columns, left);
      const int64_t height = std::min(job.height, job.m - i * job.height);
      float* tile = job.sums_wait() ? layout.at(i, j) : layout.sums + tiles++ % 2 * job.tile_words();
      const bool joins = last && tail.joins();
      const TileTail joined = joins ? tail.at(i, j) : TileTail{};
      if (joins) left.tail = &joined;
      if (streamed.ready()) {
        streamed.multiply(left, height, unit, depth, tile);
      } else {
        const float* right = job.shares_right ? shared_panel(job, block, workspace.packed, j, unit)
                                              : panels + (j - task.column_begin) * column_words(job.k);
        job.products[height - 1](left, right, depth, tile, job.columns, unit > 0);
      }
      if (!last) continue;
      if (!joins) tail.add_to(tile, job.columns, i, j);
      finish_pending();
      pending = {i, j, tile};
    }
    unit += depth;
  } while (unit < task.unit_end);
  finish_pending();
}

// Multiplies each row panel by all columns of a task, whose right panels are shared, and finishes whole rows.
void run_strips(const Job& job, const Block& block, const Block& task, const Workspace& workspace, int thread) {
  const TileRun run(job.tiles);
  const TailPanels tail(job, workspace.tail);
  float* const strip = workspace.sums + thread * kTaskSums;
  const int64_t width = (task.column_end - task.column_begin) * job.columns, column = task.column_begin * job.columns;
  for (int64_t i = task.row_begin; i < task.row_end; ++i) {
    TileLeft left = tile_left(job, block, workspace.packed, i, task.unit_begin);
    const int64_t row = i * job.height, rows = std::min(job.height, job.m - row);
    for (int64_t j = task.column_begin; j < task.column_end; ++j) {
      float* const tile = strip + (j - task.column_begin) * job.columns;
      const TileTail joined = tail.joins() ? tail.at(i, j) : TileTail{};
      if (tail.joins()) left.tail = &joined;
      job.products[rows - 1](left, shared_panel(job, block, workspace.packed, j, task.unit_begin), job.units, tile,
                             width, false);
      if (!tail.joins()) tail.add_to(tile, width, i, j);
    }
    job.kernels.finish(strip, width, job.target, {row, rows, column, std::min(width, job.n - column)});
  }
}

void run_block(const Job& job, const Block& block, const Workspace& workspace, ThreadPool& pool) {
  const int64_t row_tasks = div_ceil(block.row_end - block.row_begin, job.task_row_panels);
  const int64_t column_tasks = div_ceil(block.column_end - block.column_begin, job.task_column_panels);
  for_each(pool, row_tasks * column_tasks, [&](int64_t index, int thread) {
    Block task = block;
    task.row_begin += index / column_tasks * job.task_row_panels;
    task.row_end = std::min(block.row_end, task.row_begin + job.task_row_panels);
    task.column_begin += index % column_tasks * job.task_column_panels;
    task.column_end = std::min(block.column_end, task.column_begin + job.task_column_panels);

    if (job.in_strips) {
      run_strips(job, block, task, workspace, thread);
      return;
    }
    SumsLayout layout{workspace.sums + thread * kTaskSums, task.row_begin, task.column_begin, 0, 0};
    if (job.blocks_wait()) layout = {workspace.sums, block.row_begin, block.column_begin, 0, 0};
    if (job.sums_wait()) {
      layout.row_stride = job.tile_words();
      layout.column_stride = job.tile_words() * (job.blocks_wait() ? job.block_row_panels : job.task_row_panels);
    }
    // Panels that are read from memory are read from end to end, one after the other.
    const int64_t together = job.streams() ? 1 : task.column_end - task.column_begin, end = task.column_end;
    for (; task.column_begin < end; task.column_begin = task.column_end) {
      task.column_end = std::min(end, task.column_begin + together);
      run_task(job, block, task, workspace, thread, layout);
    }
  });
}

// The parts of a workspace, each a multiple of 64 bytes.
int64_t sums_floats(const MatmulShape& largest, int threads) {
  return largest.k > kMaxUnits ? std::max(kWaitingSums, threads * kTaskSums) : threads * kTaskSums;
}

Workspace divide(std::byte* workspace, const MatmulShape& shape, int threads) {
  Workspace result{};
  result.k = shape.k;
  result.packed = reinterpret_cast<float*>(workspace);
  result.columns = result.packed + shared_panel_words(shape);
  result.sums = result.columns + threads * kMaxGroup * column_words(shape.k);
  result.tail = result.sums + sums_floats(shape, threads);
  result.decoded = reinterpret_cast<std::byte*>(result.tail + tail_panel_words(shape));
  return result;
}

void check(const MatmulArgs& args, const std::byte* workspace) {
  const MatmulShape& shape = args.shape;
  const auto real = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; };
  SPILLWAY_CHECK(shape.m >= 0 && shape.n >= 0 && shape.k >= 0 && shape.tail >= 0, "[{}, {}, {} and {}]", shape.m,
                 shape.n, shape.k, shape.tail);
  const auto both_bf16 = [](const Matrix& a, const Matrix& b) {
    return a.dtype == DType::kBF16 && b.dtype == DType::kBF16;
  };
  SPILLWAY_CHECK(shape.tail == 0 || both_bf16(args.tail_a, args.tail_b) || !both_bf16(args.a, args.b),
                 "a tail of {} x {}", name_of(args.tail_a.dtype), name_of(args.tail_b.dtype));
  SPILLWAY_CHECK(shape.tail == 0 || args.alpha != 0, "a tail of a product that is multiplied by 0");
  SPILLWAY_CHECK(real(args.a.dtype) && real(args.b.dtype) && real(args.c_dtype), "{} x {} to {}", name_of(args.a.dtype),
                 name_of(args.b.dtype), name_of(args.c_dtype));
  SPILLWAY_CHECK(real(args.addend_dtype) && real(args.bias_dtype), "addend {}, bias {}", name_of(args.addend_dtype),
                 name_of(args.bias_dtype));
  SPILLWAY_CHECK(args.addend == nullptr || args.addend != args.c ||
                     (args.addend_dtype == args.c_dtype && args.addend_stride == args.c_stride),
                 "an addend that is C must have its dtype and stride");
  SPILLWAY_CHECK(reinterpret_cast<uintptr_t>(workspace) % 64 == 0, "a workspace that is not 64-byte aligned");
}

}  // namespace

int64_t matmul_workspace_bytes(const MatmulShape& largest, DType, DType, int threads) {
  return (shared_panel_words(largest) + threads * kMaxGroup * column_words(largest.k) + sums_floats(largest, threads) +
          tail_panel_words(largest)) *
         static_cast<int64_t>(sizeof(float));
}

int64_t decoding_matmul_workspace_bytes(const MatmulShape& largest, DType a, DType b, int threads) {
  return matmul_workspace_bytes(largest, a, b, threads) + threads * decoded_bytes(largest.k);
}

void matmul_with(const MatmulKernels& kernels, Bf16Path path, const MatmulArgs& args, std::byte* workspace,
                 ThreadPool& pool) {
  check(args, workspace);
  if (args.shape.m == 0 || args.shape.n == 0) return;
  const Job job = cut_matmul(kernels, path, args, pool.threads());
  const Workspace parts = divide(workspace, args.shape, pool.threads());
  TailPanels(job, parts.tail).pack(pool);

  for (int64_t row = 0; row < job.row_panels; row += job.block_row_panels) {
    const int64_t row_end = std::min(job.row_panels, row + job.block_row_panels);
    for (int64_t column = 0; column < job.column_panels; column += job.block_column_panels) {
      const int64_t column_end = std::min(job.column_panels, column + job.block_column_panels);
      int64_t unit = 0;
      do {
        const int64_t unit_end = std::min(job.units, unit + job.block_units);
        const Block block{row, row_end, column, column_end, unit, unit_end};
        if (!job.direct) pack_left(job, block, parts, pool);
        if (job.shares_right) pack_shared(job, block, parts, pool);
        run_block(job, block, parts, pool);
        unit = unit_end;
      } while (unit < job.units);
    }
  }
}

void matmul(const MatmulArgs& args, std::byte* workspace, ThreadPool& pool) {
  const bool both_bf16 = args.a.dtype == DType::kBF16 && args.b.dtype == DType::kBF16;
  matmul_with(best_matmul_kernels(), both_bf16 ? choose_bf16_path() : Bf16Path::kWidenToF32, args, workspace, pool);
}

}  // namespace spillway::cpu
