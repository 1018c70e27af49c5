#include <cstring>

#include "backend/kernel.h"
#include "base/error.h"

namespace spillway::ops {

void gather_rows_cpu(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &index = args.inputs[1], &out = args.outputs[0];
  const int64_t row_bytes = x.shape[1] * size_of(x.dtype);
  for (int64_t i = 0; i < out.shape[0]; ++i) {
    const int64_t row = index.as<int32_t>()[i];
    SPILLWAY_CHECK(row >= 0 && row < x.shape[0], "row {} of {}", row, x.shape[0]);
    std::memcpy(out.as<std::byte>() + i * row_bytes, x.as<std::byte>() + row * row_bytes,
                static_cast<size_t>(row_bytes));
  }
}

}  // namespace spillway::ops
