// Products of the rows of experts, on the CPU: those of few rows each by one thread, which waits for no other, the rest
// one after the other by all threads.
#pragma once

#include "backend/cpu/for_each.h"
#include "base/error.h"
#include "ops/grouped_linear/operands.h"
#include "ops/memory.h"

namespace spillway::ops::grouped_linear_op {

struct RowRange {
  int64_t begin = 0, end = 0;
};

// Returns the rows of experts [first, end).
[[nodiscard]] inline RowRange rows_of(const TensorView& offsets, int64_t first, int64_t end, int64_t rows) {
  const auto* const at = offsets.as<int32_t>();
  SPILLWAY_CHECK(at[first] >= 0 && at[first] <= at[end] && at[end] <= rows, "rows {} to {} of {}", at[first], at[end],
                 rows);
  return {at[first], at[end]};
}

// Returns rows of `width` elements as a tensor.
[[nodiscard]] inline TensorView rows_at(const TensorView& tensor, int64_t width, const RowRange& rows) {
  const int64_t row_bytes = width * size_of(tensor.dtype);
  return {tensor.as<std::byte>() + rows.begin * row_bytes, tensor.dtype, {rows.end - rows.begin, width}};
}

// Writes the rows of other experts: the addend's, or zeros.
inline void write_other_rows(const TensorView& addend, const TensorView& out, int64_t width, int64_t rows,
                             const RowRange& own, ThreadPool& threads) {
  for (const RowRange& range : {RowRange{0, own.begin}, RowRange{own.end, rows}}) {
    if (range.begin == range.end) continue;
    const TensorView to = rows_at(out, width, range);
    if (addend.data != nullptr) {
      copy_tensor(rows_at(addend, width, range), to, threads);
    } else {
      zero_tensor(to, threads);
    }
  }
}

// Calls product(expert, rows, workspace, threads) for each of `experts` experts from `first` on: with a workspace of
// its own and no other threads where a thread does it alone. `workspace` is laid out as `layout` says.
template <typename Product>
void for_experts(const TensorView& offsets, int64_t first, int64_t experts, int64_t rows, const ExpertWorkspace& layout,
                 std::byte* workspace, ThreadPool& threads, const Product& product) {
  const RowRange all = rows_of(offsets, first, first + experts, rows);
  const int64_t few = rows_for_one_thread(all.end - all.begin, threads.threads());
  const auto is_alone = [&](const RowRange& own) { return own.end - own.begin <= few; };
  for (int64_t expert = first; expert < first + experts; ++expert) {
    const RowRange own = rows_of(offsets, expert, expert + 1, rows);
    if (!is_alone(own)) product(expert, own, workspace, threads);
  }
  cpu::for_each(threads, experts, [&](int64_t i, int thread) {
    const RowRange own = rows_of(offsets, first + i, first + i + 1, rows);
    if (!is_alone(own)) return;
    ThreadPool alone(1);
    product(first + i, own, workspace + thread * layout.alone, alone);
  });
}

// Multiplies the rows of `experts` experts from sizes.first on by the matrices that matrix_of(i) returns, which any
// thread calls: alpha * rows op(matrix) + addend, for the inputs of grouped_linear.
template <typename MatrixOf>
void multiply_rows(const KernelArgs& args, const Sizes& sizes, int64_t experts, const MatrixOf& matrix_of,
                   const ExpertWorkspace& layout, std::byte* workspace, float alpha = 1) {
  const TensorView &x = args.inputs[kX], &offsets = args.inputs[kOffsets], &addend = args.inputs[kAddend],
                   &out = args.outputs[0];
  const int64_t rows = x.shape[0] * sizes.pairs, end = sizes.first + experts;
  write_other_rows(addend, out, sizes.out, rows, rows_of(offsets, sizes.first, end, rows), *args.threads);
  for_experts(offsets, sizes.first, experts, rows, layout, workspace, *args.threads,
              [&](int64_t expert, const RowRange& own, std::byte* space, ThreadPool& threads) {
                const TensorView to = rows_at(out, sizes.out, own);
                const auto& matrix = matrix_of(expert - sizes.first);
                cpu::matmul({.shape = product_of_rows(sizes, own.end - own.begin),
                             .a = {rows_at(x, sizes.in, own).data, x.dtype, sizes.in},
                             .b = matrix,
                             .c = to.data,
                             .c_dtype = out.dtype,
                             .c_stride = sizes.out,
                             .alpha = alpha,
                             .addend = addend.data == nullptr ? nullptr : rows_at(addend, sizes.out, own).data,
                             .addend_dtype = addend.dtype,
                             .addend_stride = sizes.out},
                            space, threads);
              });
}

}  // namespace spillway::ops::grouped_linear_op
