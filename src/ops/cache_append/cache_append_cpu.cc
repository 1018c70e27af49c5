#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cache_append/cache_append_cpu.cc"
#include <hwy/foreach_target.h>

#include "base/error.h"
#include "ops/memory.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void cache_append(const KernelArgs& args) {
  const TensorView &cache = args.inputs[0], &x = args.inputs[1], &out = args.outputs[0];
  const int64_t start = *args.inputs[2].as<int32_t>(), width = x.shape[1];
  SPILLWAY_CHECK(start >= 0 && start + x.shape[0] <= out.shape[0], "rows [{}, {}) of a cache of {}", start,
                 start + x.shape[0], out.shape[0]);
  copy_tensor(cache, out, *args.threads);
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(out.dtype, [&]<typename C>(C*) {
      args.threads->parallel_for(x.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
        map(
            begin, end, [](Vector v) HWY_ATTR { return v; }, out.as<C>() + start * width, x.as<X>());
      });
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(cache_append);
void cache_append_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(cache_append)(args); }
}  // namespace spillway::ops
#endif
