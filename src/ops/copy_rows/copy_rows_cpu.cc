#include <cstring>

#include "backend/kernel.h"
#include "base/error.h"
#include "base/parallel.h"
#include "ops/copy_rows/operands.h"
#include "ops/memory.h"
#include "ops/simd.h"

namespace spillway::ops {

void copy_rows_cpu(const KernelArgs& args) {
  using namespace copy_rows_op;
  const TensorView &from = args.inputs[kFrom], &to = args.inputs[kTo], &out = args.outputs[0];
  const int64_t rows = out.shape[0], row_bytes = out.shape[1] * size_of(out.dtype);
  copy_tensor(args.inputs[kTable], out, *args.threads);
  args.threads->parallel_for(from.elems(), row_grain(out.shape[1]), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t source = from.as<int32_t>()[i], target = to.as<int32_t>()[i];
      SPILLWAY_CHECK(source >= 0 && source < rows && target >= 0 && target < rows, "rows {} and {} of a table of {}",
                     source, target, rows);
      if (source == target) continue;
      std::memcpy(out.as<std::byte>() + target * row_bytes, out.as<std::byte>() + source * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  });
}

}  // namespace spillway::ops
