#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/sgd/sgd_cpu.cc"
#include <hwy/foreach_target.h>

#include "ops/row_slice.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct SgdConstants {
  Vector learning_rate, weight_decay, momentum, clip;
};

// Null pointers stand for what is absent: `buffer` without momentum, `copy` where p is the weight itself.
template <typename Gradient>
void sgd_range(const SgdConstants& c, int64_t begin, int64_t end, const float* p_in, const float* buffer_in,
               const Gradient* g, float* p, float* buffer, bf16* copy) {
  // The GPU's kernel does the same, operation by operation. None is fused: not every instruction set could.
  const auto step = [&](Vector x, Vector b, Vector gradient, Vector& next_b) HWY_ATTR {
    const Vector decayed = hn::Add(hn::Mul(x, c.weight_decay), hn::Mul(gradient, c.clip));
    next_b = hn::Add(hn::Mul(b, c.momentum), decayed);
    return hn::Sub(x, hn::Mul(c.learning_rate, next_b));
  };
  for (int64_t i = begin; i < end; i += lanes()) {
    const int64_t count = std::min(lanes(), end - i);
    Vector next_b;
    if (count == lanes()) {
      const Vector x = step(load(p_in + i), buffer ? load(buffer_in + i) : zero(), load(g + i), next_b);
      store(x, p + i);
      if (buffer) store(next_b, buffer + i);
      if (copy) store(x, copy + i);
    } else {
      const Vector x = step(load_some(p_in + i, count), buffer ? load_some(buffer_in + i, count) : zero(),
                            load_some(g + i, count), next_b);
      store_some(x, p + i, count);
      if (buffer) store_some(next_b, buffer + i, count);
      if (copy) store_some(x, copy + i, count);
    }
  }
}

void sgd(const KernelArgs& args) {
  const bool has_momentum = args.inputs[4].data != nullptr, has_master = args.inputs[5].data != nullptr;
  const SgdConstants constants{.learning_rate = constant(*args.inputs[2].as<float>()),
                               .weight_decay = constant(static_cast<float>(args.attributes.real("weight_decay"))),
                               .momentum = constant(static_cast<float>(args.attributes.real("momentum"))),
                               .clip = args.inputs[3].data ? constant(*args.inputs[3].as<float>()) : constant(1)};
  const TensorView &weight_in = args.inputs[0], &weight = args.outputs[0];
  const ElementRange slice = elements_of(slice_of(args.attributes), weight.shape);
  copy_other_rows(weight_in, weight, slice, *args.threads);
  const float* p_in = has_master ? args.inputs[5].as<float>() : weight_in.as<float>() + slice.begin;
  float* p = has_master ? args.outputs.back().as<float>() : weight.as<float>() + slice.begin;
  const auto* buffer_in = has_momentum ? args.inputs[4].as<float>() : nullptr;
  auto* buffer = has_momentum ? args.outputs[1].as<float>() : nullptr;
  bf16* copy = has_master && weight.dtype == DType::kBF16 ? weight.as<bf16>() + slice.begin : nullptr;
  with_real(args.inputs[1].dtype, [&]<typename T>(T*) {
    const T* gradient = args.inputs[1].as<T>() + slice.begin;
    args.threads->parallel_for(slice.end - slice.begin, kElementGrain, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      sgd_range(constants, begin, end, p_in, buffer_in, gradient, p, buffer, copy);
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(sgd);
void sgd_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(sgd)(args); }
}  // namespace spillway::ops
#endif
