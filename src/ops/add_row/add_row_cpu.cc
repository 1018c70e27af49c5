#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/add_row/add_row_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void add_row(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &row = args.inputs[1], &out = args.outputs[0];
  const int64_t width = x.shape[1];
  with_real(x.dtype, [&]<typename X>(X*) {
    with_real(row.dtype, [&]<typename R>(R*) {
      args.threads->parallel_for(x.shape[0], row_grain(width), [&](int64_t begin, int64_t end, int) HWY_ATTR {
        const auto plus = [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); };
        for (int64_t i = begin; i < end; ++i)
          map(0, width, plus, out.as<X>() + i * width, x.as<X>() + i * width, row.as<R>());
      });
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(add_row);
void add_row_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(add_row)(args); }
}  // namespace spillway::ops
#endif
