// Heads dealt out to the ranks that share sequences, each of which attends with some of them: the columns of a matrix
// as pieces of rows, one for each rank, and back.
#pragma once

#include "base/math.h"
#include "graph/builder.h"

namespace spillway::ops {

// A matrix of `blocks` blocks of columns, equally wide (heads). Each is there `spread` times, side by side, and the
// blocks are dealt out to `ranks` pieces in their order, as many to each; what is left of the last pieces is zero.
struct ColumnDeal {
  int64_t ranks = 1, blocks = 1, spread = 1;

  // Returns the blocks of a piece.
  [[nodiscard]] constexpr int64_t of_piece() const { return div_ceil(blocks * spread, ranks); }
};

// Returns the pieces of x [T, blocks * S], f32 or bf16, under each other: [ranks * T, of_piece() * S] of its dtype,
// along `axis`, bit for bit. Row r * T + t has what rank r gets of row t. Its gradient is collect_columns().
[[nodiscard]] ValueId deal_columns(Builder& builder, ValueId x, const ColumnDeal& deal, AxisId axis);

// Returns the matrix [T, blocks * S], along `axis`, of pieces [ranks * T, of_piece() * S]: each block is the sum of its
// `spread` copies, in f32 and rounded once. Its gradient is deal_columns().
[[nodiscard]] ValueId collect_columns(Builder& builder, ValueId pieces, const ColumnDeal& deal, AxisId axis);

}  // namespace spillway::ops
