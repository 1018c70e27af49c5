// The kernel is bound by memory: it writes k rows for each that it reads.
#include "backend/kernel.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "ops/gather_rows/operands.h"
#include "ops/simd.h"

namespace spillway::ops {

void gather_rows_cpu(const KernelArgs& args) {
  using namespace gather_rows_op;
  const TensorView &x = args.inputs[kX], &order = args.inputs[kOrder];
  const int64_t row_bytes = x.shape[1] * size_of(x.dtype), k = order.shape[1];
  args.threads->parallel_for(order.elems(), row_grain(x.shape[1]), [&](int64_t begin, int64_t end, int) {
    for (int64_t place = begin; place < end; ++place) {
      const int64_t token = order.as<int32_t>()[place] / k;
      SPILLWAY_CHECK(token >= 0 && token < x.shape[0], "token {} of {}", token, x.shape[0]);
      copy_memory(args.outputs[0].as<std::byte>() + place * row_bytes, x.as<std::byte>() + token * row_bytes,
                  row_bytes);
    }
  });
}

}  // namespace spillway::ops
