#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cache_append/cache_append_cpu.cc"
#include <hwy/foreach_target.h>

#include "base/error.h"
#include "ops/cache_append/operands.h"
#include "ops/memory.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void cache_append(const KernelArgs& args) {
  using namespace cache_append_op;
  const TensorView &cache = args.inputs[kCache], &x = args.inputs[kX], &out = args.outputs[0];
  const auto* rows = args.inputs[kRows].as<int32_t>();
  const int64_t width = x.shape[1], capacity = out.shape[0];
  copy_tensor(cache, out, *args.threads);
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(out.dtype, [&]<typename C>(C*) {
      args.threads->parallel_for(x.shape[0], row_grain(width), [&](int64_t begin, int64_t end, int) HWY_ATTR {
        for (int64_t i = begin; i < end; ++i) {
          SPILLWAY_CHECK(rows[i] >= 0 && rows[i] < capacity, "row {} of a cache of {}", rows[i], capacity);
          map(
              0, width, [](Vector v) HWY_ATTR { return v; }, out.as<C>() + rows[i] * width, x.as<X>() + i * width);
        }
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
