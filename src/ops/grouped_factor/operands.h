// The operands of grouped_factor and its gradient, and where an expert's matrix is in a factor.
#pragma once

#include "ops/grouped_linear/operands.h"

namespace spillway::ops::grouped_factor_op {

using grouped_linear_op::Sizes;

// The inputs of grouped_factor are those of grouped_linear, whose products it makes, with the factor for the weight.
enum Input : int { kX, kOffsets, kAddend, kFactor };
static_assert(int{kX} == int{grouped_linear_op::kX} && int{kOffsets} == int{grouped_linear_op::kOffsets} &&
              int{kAddend} == int{grouped_linear_op::kAddend} && int{kFactor} == int{grouped_linear_op::kFirstWeight});
// The inputs of the factor's gradient; the addend may be absent.
enum GradInput : int { kGradX, kDy, kGradOffsets, kGradAddend };

// An expert's matrix [rows, columns] in a factor: its element (i, j) is at expert * expert_stride + i * row_stride + j
// * column_stride + first.
struct FactorLayout {
  int64_t rows = 0, columns = 0;
  int64_t expert_stride = 0, row_stride = 0, column_stride = 0, first = 0;

  // Returns true if the matrices of all experts are the whole factor.
  [[nodiscard]] bool is_whole(const Shape& factor, int64_t experts) const {
    return rows * columns * experts == factor.elems();
  }
};

// The attributes say which factor it is, and which of B's rows.
[[nodiscard]] inline FactorLayout layout_of(const Shape& factor, int64_t experts, const Attributes& attributes) {
  if (attributes.integer("is_b") == 0)
    return {.rows = factor[0] / experts,
            .columns = factor[1],
            .expert_stride = factor.elems() / experts,
            .row_stride = factor[1],
            .column_stride = 1};
  return {.rows = attributes.integer("rows"),
          .columns = factor[1] / experts,
          .expert_stride = 1,
          .row_stride = factor[1],
          .column_stride = experts,
          .first = attributes.integer("first_row") * factor[1]};
}

// Returns the sizes of the product of rows with an expert's matrix, by the attribute "transposed" or with its
// transpose.
[[nodiscard]] inline Sizes sizes_of(const FactorLayout& matrix, const Attributes& attributes) {
  const bool transposed = attributes.integer_or("transposed", 1) != 0;
  return {.pairs = attributes.integer("pairs"),
          .in = transposed ? matrix.columns : matrix.rows,
          .out = transposed ? matrix.rows : matrix.columns,
          .first = 0,
          .transposed = transposed};
}

// Returns the workspace of the products over rows of `x` and of dy, whose types are `dtype` and `gradient`.
[[nodiscard]] inline grouped_linear_op::ExpertWorkspace workspace_over_rows(const Sizes& sizes, const Shape& x,
                                                                            DType gradient, DType dtype, int threads) {
  return {x[0] * sizes.pairs, threads, [&](int64_t rows, int some) {
            return cpu::matmul_workspace_bytes(grouped_linear_op::product_over_rows(sizes, rows), gradient, dtype,
                                               some);
          }};
}

}  // namespace spillway::ops::grouped_factor_op
