#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cached_attention/cached_attention_cpu.cc"
#include <hwy/foreach_target.h>

#include "base/error.h"
#include "ops/attention/attention_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void cached_attention(const KernelArgs& args) {
  const TensorView &q = args.inputs[0], &k = args.inputs[1], &v = args.inputs[2];
  const int64_t start = *args.inputs[3].as<int32_t>(), window = args.attributes.integer("sliding_window");
  SPILLWAY_CHECK(start >= 0 && start + q.shape[0] <= k.shape[0], "tokens [{}, {}) on a cache of {}", start,
                 start + q.shape[0], k.shape[0]);
  const auto range_of = [=](int64_t token) {
    const int64_t position = start + token;
    return KeyRange{window > 0 ? std::max<int64_t>(0, position - window + 1) : 0, position + 1};
  };
  with_real(q.dtype, [&]<typename T>(T*) { attend<T>(args, k, v, range_of, nullptr); });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(cached_attention);
void cached_attention_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(cached_attention)(args); }
}  // namespace spillway::ops
#endif
