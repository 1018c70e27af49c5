#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/squared_norm/squared_norm_cpu.cc"
#include <hwy/foreach_target.h>

#include "base/math.h"
#include "ops/squared_norm/blocks.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

void squared_norm(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  auto* partial = reinterpret_cast<float*>(args.workspace);
  const int64_t elems = x.elems(), blocks = div_ceil(elems, kNormBlockElems);
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(blocks, kElementGrain / kNormBlockElems, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      const auto square = [](Vector v) HWY_ATTR { return hn::Mul(v, v); };
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kNormBlockElems;
        partial[block] = sum(std::min(kNormBlockElems, elems - first), square, x.as<T>() + first);
      }
    });
  });
  double total = 0;
  for (int64_t block = 0; block < blocks; ++block) total += partial[block];
  *args.outputs[0].as<float>() = static_cast<float>(total);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(squared_norm);
void squared_norm_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(squared_norm)(args); }
}  // namespace spillway::ops
#endif
