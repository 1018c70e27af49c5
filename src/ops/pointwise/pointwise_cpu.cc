#include "base/parallel.h"
#include "ops/pointwise/functions.h"

namespace spillway::ops::pointwise {

template <typename F>
void run_cpu(const KernelArgs& args) {
  constexpr int64_t kGrain = 1024;
  const F f(args.attributes);
  const Operands operands(args);
  args.threads->parallel_for(operands.elems, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) operands.apply(f, i);
  });
}

SPILLWAY_POINTWISE_KERNELS(run_cpu);

}  // namespace spillway::ops::pointwise
