// The kernels are bound by memory: every element is read and written once.

#include "backend/kernel.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "ops/simd.h"
#include "ops/split_columns/widths.h"

namespace spillway::ops {
namespace {

// Calls copy(row, part, byte of the whole's row, bytes of the part's) for each group of columns in each row, which are
// rows of their own here, and each part.
template <typename Copy>
void for_each_part(const KernelArgs& args, const TensorView& whole, const Copy& copy) {
  const ColumnWidths widths(args.attributes);
  const int64_t elem_bytes = size_of(whole.dtype), groups = groups_of(args.attributes);
  const int64_t rows = whole.shape[0] * groups, columns = whole.shape[1] / groups;
  args.threads->parallel_for(rows, row_grain(columns), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t at = row * columns * elem_bytes;
      for (size_t part = 0; part < widths.size(); ++part) {
        const int64_t bytes = widths[part] * elem_bytes;
        copy(row, part, at, bytes);
        at += bytes;
      }
    }
  });
}

}  // namespace

void split_columns_cpu(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  for_each_part(args, x, [&](int64_t row, size_t part, int64_t at, int64_t bytes) {
    copy_memory(args.outputs[part].as<std::byte>() + row * bytes, x.as<std::byte>() + at, bytes);
  });
}

void join_columns_cpu(const KernelArgs& args) {
  const TensorView& out = args.outputs[0];
  for_each_part(args, out, [&](int64_t row, size_t part, int64_t at, int64_t bytes) {
    std::byte* to = out.as<std::byte>() + at;
    const auto* from = args.inputs[part].as<std::byte>();
    if (from != nullptr) {
      copy_memory(to, from + row * bytes, bytes);
    } else {
      fill_memory(to, 0, bytes);
    }
  });
}

}  // namespace spillway::ops
