// The frame of updates that look at a whole matrix: sums over its rows, its columns and all of it, and the next running
// mean of squares if only its row and column means are kept (Shazeer and Stern, 2018). Such an optimizer's schema has
// slice_unit 0.
//
// Sums are added in one order on every device and with every instruction set:
//
// 1. Of a row: sum j of kRowSums takes elements j, j + kRowSums, ... one after another, in f32; then halves are added.
// 2. Of a column: rows are cut into blocks (rows_of_block in ops/column_sums.h); those of a block are added one after
//    another, then the sums of blocks, in f32.
// 3. Of all rows: as the blocks of ops/squared_norm/order.h, in f64.
#pragma once

#include <algorithm>
#include <cmath>

#include "backend/kernel.h"
#include "base/math.h"
#include "ops/column_sums.h"
#include "ops/optimizers/either_side.h"
#include "ops/optimizers/update.h"

namespace spillway::ops {

constexpr int kRowSums = 32;

// A weight as rows and columns; a vector is one row.
struct MatrixSize {
  int64_t rows = 0, columns = 0;

  [[nodiscard]] static MatrixSize of(const Shape& weight) {
    if (weight.rank() < 2) return {1, weight.elems()};
    return {weight[0], weight[0] == 0 ? 0 : weight.elems() / weight[0]};
  }
  [[nodiscard]] constexpr int64_t block_rows() const { return rows_of_block(rows); }
  [[nodiscard]] constexpr int64_t blocks() const { return div_ceil(rows, block_rows()); }
};

// Returns true if a mean of squares of the weight is kept as means of rows and of columns.
[[nodiscard]] inline bool is_factored(const Shape& weight) { return weight.rank() >= 2; }

// The parts of the workspace of a whole-matrix update.
struct MatrixScratch {
  // The bytes at its start for numbers of the step and of the matrix.
  static constexpr int64_t kNumbersBytes = 256;

  MatrixScratch(std::byte* workspace, const MatrixSize& size)
      : row_sums(reinterpret_cast<float*>(workspace + kNumbersBytes)),
        row_factors(row_sums + size.rows),
        column_factors(row_factors + size.rows),
        column_sums(column_factors + size.columns) {}
  [[nodiscard]] static int64_t bytes(const MatrixSize& size) {
    return kNumbersBytes + (2 * size.rows + size.columns) * static_cast<int64_t>(sizeof(float)) +
           column_sums_bytes(size.columns);
  }

  float* row_sums;        // [rows]
  float* row_factors;     // [rows]
  float* column_factors;  // [columns]; row factor * column factor is the root's inverse of a mean of squares
  float* column_sums;     // [blocks, columns]
};

// A running mean of squares: for a matrix those of its rows and of its columns; for a vector, in `rows`, its own.
struct MeanSquares {
  const float *rows_in, *columns_in;
  float *rows, *columns;
};
// Returns that in state `first`, and in the next one if the weight is a matrix.
template <int kStates>
MeanSquares mean_squares(const UpdateViews<kStates>& views, size_t first) {
  const size_t second = std::min(first + 1, views.state.size() - 1);
  return {views.state_in[first], views.state_in[second], views.state[first], views.state[second]};
}

// The weights of the old value and of the new one in a running mean.
struct MeanWeights {
  float last, next;
};
SPILLWAY_EITHER_SIDE inline MeanWeights mean_weights(double beta) {
  return {static_cast<float>(beta), static_cast<float>(1 - beta)};
}

// Returns `rate` divided by the ratio of an update's root mean square to a threshold, if that is above 1; `squares` is
// the sum of its squares.
SPILLWAY_EITHER_SIDE inline float clipped_rate(float rate, double squares, int64_t elems, double threshold) {
  const double ratio = std::sqrt(squares / static_cast<double>(elems)) / threshold;
  return static_cast<float>(rate / (ratio > 1 ? ratio : 1.0));
}

// Do OpDef::workspace_bytes for either side, and OpDef::cost of an update that reads its gradient `passes` times.
[[nodiscard]] inline int64_t whole_matrix_workspace_bytes(TypeList inputs, TypeList, const Attributes&, int) {
  return MatrixScratch::bytes(MatrixSize::of(inputs[update_input::kWeight]->shape));
}
template <int kPasses>
Cost whole_matrix_cost(TypeList inputs, TypeList outputs, const Attributes& attributes) {
  Cost cost = slice_cost(inputs, outputs, attributes);
  cost.bytes += (kPasses - 1) * static_cast<double>(inputs[update_input::kGradient]->bytes());
  return cost;
}

}  // namespace spillway::ops
