// Bound by memory: 28 bytes per parameter with f32 gradients and a bf16 working copy (read p, m, v, g; write p, m, v
// and the copy), next to which the arithmetic is nothing.
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/adamw/adamw_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/adamw/numbers.h"
#include "ops/row_slice.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct AdamwConstants {
  Vector beta2, one_minus_beta1, one_minus_beta2, decay, minus_step_size, inverse_root_correction, eps, clip;
};

AdamwConstants adamw_constants(const KernelArgs& args) {
  const float clip = args.inputs[6].data ? *args.inputs[6].as<float>() : 1;
  const AdamwNumbers n =
      adamw_numbers(adamw_options(args.attributes), *args.inputs[4].as<float>(), *args.inputs[5].as<int32_t>(), clip);
  return {.beta2 = constant(n.beta2),
          .one_minus_beta1 = constant(n.one_minus_beta1),
          .one_minus_beta2 = constant(n.one_minus_beta2),
          .decay = constant(n.decay),
          .minus_step_size = constant(n.minus_step_size),
          .inverse_root_correction = constant(n.inverse_root_correction),
          .eps = constant(n.eps),
          .clip = constant(n.clip)};
}

struct AdamwLane {
  Vector p, m, v;
};

// The GPU's kernel does the same, operation by operation. None is fused: not every instruction set could.
HWY_INLINE AdamwLane adamw_update(const AdamwConstants& c, AdamwLane x, Vector g) {
  g = hn::Mul(g, c.clip);
  x.m = hn::Add(x.m, hn::Mul(hn::Sub(g, x.m), c.one_minus_beta1));
  x.v = hn::Add(hn::Mul(x.v, c.beta2), hn::Mul(hn::Mul(g, g), c.one_minus_beta2));
  const Vector denominator = hn::Add(hn::Mul(hn::Sqrt(x.v), c.inverse_root_correction), c.eps);
  x.p = hn::Add(hn::Mul(x.p, c.decay), hn::Mul(c.minus_step_size, hn::Div(x.m, denominator)));
  return x;
}

// `master` is where p is read and written in f32; `copy` gets its rounded value, or is null where p is the weight.
template <typename Gradient>
void adamw_range(const AdamwConstants& c, int64_t begin, int64_t end, const float* p_in, const float* m_in,
                 const float* v_in, const Gradient* g, float* p, float* m, float* v, bf16* copy) {
  int64_t i = begin;
  for (; i + lanes() <= end; i += lanes()) {
    const AdamwLane x = adamw_update(c, {load(p_in + i), load(m_in + i), load(v_in + i)}, load(g + i));
    store(x.p, p + i);
    store(x.m, m + i);
    store(x.v, v + i);
    if (copy) store(x.p, copy + i);
  }
  if (i == end) return;
  const int64_t rest = end - i;
  const AdamwLane x = adamw_update(c, {load_some(p_in + i, rest), load_some(m_in + i, rest), load_some(v_in + i, rest)},
                                   load_some(g + i, rest));
  store_some(x.p, p + i, rest);
  store_some(x.m, m + i, rest);
  store_some(x.v, v + i, rest);
  if (copy) store_some(x.p, copy + i, rest);
}

void adamw(const KernelArgs& args) {
  const bool has_master = args.inputs[7].data != nullptr;
  const AdamwConstants constants = adamw_constants(args);
  const TensorView &weight_in = args.inputs[0], &weight = args.outputs[0];
  const ElementRange slice = elements_of(slice_of(args.attributes), weight.shape);
  copy_other_rows(weight_in, weight, slice, *args.threads);
  const float* p_in = has_master ? args.inputs[7].as<float>() : weight_in.as<float>() + slice.begin;
  float* p = has_master ? args.outputs[3].as<float>() : weight.as<float>() + slice.begin;
  bf16* copy = has_master && weight.dtype == DType::kBF16 ? weight.as<bf16>() + slice.begin : nullptr;
  with_real(args.inputs[3].dtype, [&]<typename T>(T*) {
    const T* gradient = args.inputs[3].as<T>() + slice.begin;
    args.threads->parallel_for(slice.end - slice.begin, kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      adamw_range(constants, begin, end, p_in, args.inputs[1].as<float>(), args.inputs[2].as<float>(), gradient, p,
                  args.outputs[1].as<float>(), args.outputs[2].as<float>(), copy);
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(adamw);
void adamw_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(adamw)(args); }
}  // namespace spillway::ops
#endif
