#include <algorithm>

#include "base/parallel.h"
#include "ops/adapted_norm/row_norm.h"
#include "ops/real.h"

namespace spillway::ops {

void adapted_norm_cpu(const KernelArgs& args) {
  constexpr int64_t kGrainElems = 1 << 14;
  with_real(args.inputs[adapted_norm_op::kB].dtype, [&]<typename T>(T*) {
    const RowNorm<T> norm(args);
    args.threads->parallel_for(norm.rows, std::max<int64_t>(1, kGrainElems / norm.rank),
                               [&](int64_t begin, int64_t end, int) {
                                 for (int64_t row = begin; row < end; ++row) norm.compute(row);
                               });
  });
}

}  // namespace spillway::ops
