// The attributes of deal_columns and the places of its blocks, for the kernels of either side.
#pragma once

#include "graph/attributes.h"
#include "ops/deal_columns/deal_columns.h"
#include "ops/optimizers/either_side.h"
#include "tensor/view.h"

namespace spillway::ops {

[[nodiscard]] inline ColumnDeal deal_of(const Attributes& attributes) {
  return {attributes.integer("ranks"), attributes.integer("blocks"), attributes.integer("spread")};
}

// Where columns are, in elements: those of a row of the matrix, and those of its rows in the pieces.
struct DealtPlaces {
  int64_t rows;                // T
  int64_t width, piece_width;  // of a row of the matrix, and of a piece
  int64_t block;               // S
  int64_t blocks, spread, of_piece, ranks;

  DealtPlaces(const ColumnDeal& deal, const TensorView& matrix, const TensorView& pieces)
      : rows(matrix.shape[0]),
        width(matrix.shape[1]),
        piece_width(pieces.shape[1]),
        block(matrix.shape[1] / deal.blocks),
        blocks(deal.blocks),
        spread(deal.spread),
        of_piece(deal.of_piece()),
        ranks(deal.ranks) {}

  // Returns where row t begins in piece r.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t row_of_piece(int64_t r, int64_t t) const {
    return (r * rows + t) * piece_width;
  }
  // Returns the block of the matrix of which piece r has a copy as its block i; `blocks` or more where that is zero.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t block_of(int64_t r, int64_t i) const {
    return (r * of_piece + i) / spread;
  }
  // Returns where copy i of a block of row t is in the pieces.
  [[nodiscard]] SPILLWAY_EITHER_SIDE int64_t copy_of(int64_t t, int64_t matrix_block, int64_t i) const {
    const int64_t at = matrix_block * spread + i;
    return row_of_piece(at / of_piece, t) + at % of_piece * block;
  }
};

}  // namespace spillway::ops
