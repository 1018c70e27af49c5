// The kernels are bound by memory. Gates and ups are taken apart, and their gradients put together, in vectors of f32.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/clamped_swiglu/clamped_swiglu_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "ops/clamped_swiglu/formula-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Loads `count` gates and ups, at most lanes() of each; the other lanes are zero.
template <typename T>
HWY_INLINE void load_pairs(const T* from, int64_t count, Vector* gates, Vector* ups) {
  alignas(64) T own[2 * kMaxLanes] = {};
  alignas(64) float numbers[2 * kMaxLanes];
  copy_elems(own, from, 2 * count);
  store(load(own), numbers);
  store(load(own + lanes()), numbers + lanes());
  hn::LoadInterleaved2(Floats(), numbers, *gates, *ups);
}

template <typename T>
HWY_INLINE void store_pairs(Vector gates, Vector ups, T* to, int64_t count) {
  alignas(64) float numbers[2 * kMaxLanes];
  alignas(64) T own[2 * kMaxLanes];
  hn::StoreInterleaved2(gates, ups, Floats(), numbers);
  store(load(numbers), own);
  store(load(numbers + lanes()), own + lanes());
  copy_elems(to, own, 2 * count);
}

void clamped_swiglu(const KernelArgs& args) {
  const ClampedSwiglu formula = clamped_swiglu_of(args.attributes);
  const TensorView &x = args.inputs[0], &out = args.outputs[0];
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(out.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      for (int64_t i = begin; i < end; i += lanes()) {
        const int64_t count = std::min(lanes(), end - i);
        Vector gates, ups;
        load_pairs(x.as<T>() + 2 * i, count, &gates, &ups);
        const Vector y = formula.value(gates, ups).v;
        store_first(y, out.as<T>() + i, count);
      }
    });
  });
}

void clamped_swiglu_grad(const KernelArgs& args) {
  const ClampedSwiglu formula = clamped_swiglu_of(args.attributes);
  const TensorView &x = args.inputs[0], &dy = args.inputs[1];
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(dy.elems(), kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      for (int64_t i = begin; i < end; i += lanes()) {
        const int64_t count = std::min(lanes(), end - i);
        Vector gates, ups;
        load_pairs(x.as<T>() + 2 * i, count, &gates, &ups);
        Number dgate, dup;
        formula.gradients(gates, ups, load_first(dy.as<T>() + i, count), &dgate, &dup);
        store_pairs(dgate.v, dup.v, args.outputs[0].as<T>() + 2 * i, count);
      }
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(clamped_swiglu);
HWY_EXPORT(clamped_swiglu_grad);
void clamped_swiglu_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(clamped_swiglu)(args); }
void clamped_swiglu_grad_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(clamped_swiglu_grad)(args); }
}  // namespace spillway::ops
#endif
