// A product of the expert's rows for each expert, by all threads: the rate is that of a plain product of so many rows.
#include <algorithm>

#include "base/error.h"
#include "ops/grouped_linear/operands.h"
#include "ops/memory.h"

namespace spillway::ops {
namespace {

struct RowRange {
  int64_t begin = 0, end = 0;
};

// Returns the rows of experts [first, end).
RowRange rows_of(const TensorView& offsets, int64_t first, int64_t end, int64_t rows) {
  const auto* const at = offsets.as<int32_t>();
  SPILLWAY_CHECK(at[first] >= 0 && at[first] <= at[end] && at[end] <= rows, "rows {} to {} of {}", at[first], at[end],
                 rows);
  return {at[first], at[end]};
}

// Returns rows of `width` elements as a tensor.
TensorView rows_at(const TensorView& tensor, int64_t width, const RowRange& rows) {
  const int64_t row_bytes = width * size_of(tensor.dtype);
  return {tensor.as<std::byte>() + rows.begin * row_bytes, tensor.dtype, {rows.end - rows.begin, width}};
}

// Writes the rows of other experts: the addend's, or zeros.
void write_other_rows(const TensorView& addend, const TensorView& out, int64_t width, int64_t rows, const RowRange& own,
                      ThreadPool& threads) {
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

}  // namespace

void grouped_linear_cpu(const KernelArgs& args) {
  using namespace grouped_linear_op;
  const TensorView &x = args.inputs[kX], &offsets = args.inputs[kOffsets], &addend = args.inputs[kAddend],
                   &out = args.outputs[0];
  const Sizes sizes = sizes_of(x.shape, args.inputs[kFirstWeight].shape, args.attributes);
  const int64_t rows = x.shape[0] * sizes.pairs, end = sizes.first + std::ssize(args.inputs) - kFirstWeight;
  write_other_rows(addend, out, sizes.out, rows, rows_of(offsets, sizes.first, end, rows), *args.threads);
  for (int64_t expert = sizes.first; expert < end; ++expert) {
    const TensorView& weight = args.inputs[static_cast<size_t>(kFirstWeight + expert - sizes.first)];
    const RowRange own = rows_of(offsets, expert, expert + 1, rows);
    const TensorView to = rows_at(out, sizes.out, own);
    cpu::matmul({.shape = product_of_rows(sizes, own.end - own.begin),
                 .a = {rows_at(x, sizes.in, own).data, x.dtype, sizes.in},
                 .b = {weight.data, weight.dtype, weight.shape[1]},
                 .c = to.data,
                 .c_dtype = out.dtype,
                 .c_stride = sizes.out,
                 .addend = addend.data == nullptr ? nullptr : rows_at(addend, sizes.out, own).data,
                 .addend_dtype = addend.dtype,
                 .addend_stride = sizes.out},
                args.workspace, *args.threads);
  }
}

// dW = dY' X over the expert's rows, of which there may be none.
void grouped_linear_grad_cpu(const KernelArgs& args) {
  using namespace grouped_linear_op;
  const TensorView &x = args.inputs[kGradX], &dy = args.inputs[kDy], &addend = args.inputs[kGradAddend],
                   &out = args.outputs[0];
  const int64_t expert = args.attributes.integer("first_expert"), pairs = args.attributes.integer("pairs");
  const Sizes sizes{.pairs = pairs, .in = out.shape[1], .out = out.shape[0]};
  const RowRange own = rows_of(args.inputs[kGradOffsets], expert, expert + 1, x.shape[0] * pairs);
  cpu::matmul({.shape = product_over_rows(sizes, own.end - own.begin),
               .a = {rows_at(dy, sizes.out, own).data, dy.dtype, sizes.out},
               .b = {rows_at(x, sizes.in, own).data, x.dtype, sizes.in},
               .c = out.data,
               .c_dtype = out.dtype,
               .c_stride = sizes.in,
               .addend = addend.data,
               .addend_dtype = addend.dtype,
               .addend_stride = sizes.in},
              args.workspace, *args.threads);
}

}  // namespace spillway::ops
