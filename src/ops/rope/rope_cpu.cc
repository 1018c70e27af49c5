#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rope/rope_cpu.cc"
#include <hwy/foreach_target.h>

#include <cmath>

#include "ops/rope/rope.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// cos and sin of position * inv_freq, times `scaling`. The angle is rounded to f32 as transformers rounds it; it is
// brought near zero in f64, where the vector functions are exact to some units in the last place.
void fill_tables(int32_t position, const float* inv_freq, int64_t half, float scaling, float* cosines, float* sines) {
  constexpr double kTurn = 6.283185307179586476925;
  for (int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<float>(position) * inv_freq[i];
    cosines[i] = static_cast<float>(angle - std::nearbyint(angle / kTurn) * kTurn);
  }
  const auto sine = [&](Vector v) HWY_ATTR { return hn::Mul(hn::Sin(Floats(), v), constant(scaling)); };
  const auto cosine = [&](Vector v) HWY_ATTR { return hn::Mul(hn::Cos(Floats(), v), constant(scaling)); };
  map(0, half, sine, sines, cosines);
  map(0, half, cosine, cosines, cosines);
}

template <typename T>
void rotate(const T* x, int64_t half, const float* cosines, const float* sines, T* out) {
  const auto turn = [&](Vector first, Vector second, Vector c, Vector s, Vector* left, Vector* right) HWY_ATTR {
    *left = hn::NegMulAdd(second, s, hn::Mul(first, c));
    *right = hn::MulAdd(first, s, hn::Mul(second, c));
  };
  Vector left, right;
  int64_t i = 0;
  for (; i + lanes() <= half; i += lanes()) {
    turn(load(x + i), load(x + half + i), load(cosines + i), load(sines + i), &left, &right);
    store(left, out + i);
    store(right, out + half + i);
  }
  if (i == half) return;
  turn(load_some(x + i, half - i), load_some(x + half + i, half - i), load_some(cosines + i, half - i),
       load_some(sines + i, half - i), &left, &right);
  store_some(left, out + i, half - i);
  store_some(right, out + half + i, half - i);
}

void rope(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &positions = args.inputs[1], &inv_freq = args.inputs[2];
  const int64_t size = args.attributes.integer("head_size"), half = size / 2, width = x.shape[1];
  const auto scaling = static_cast<float>(args.attributes.real("attention_scaling"));
  const auto sign = static_cast<int32_t>(args.attributes.integer("sign"));
  args.threads->parallel_for(x.shape[0], row_grain(2 * width), [&](int64_t begin, int64_t end, int) {
    alignas(64) float cosines[kMaxHeadSize / 2], sines[kMaxHeadSize / 2];
    for (int64_t row = begin; row < end; ++row) {
      fill_tables(sign * positions.as<int32_t>()[row], inv_freq.as<float>(), half, scaling, cosines, sines);
      with_real(x.dtype, [&]<typename T>(T*) {
        for (int64_t at = row * width; at < (row + 1) * width; at += size) {
          rotate(x.as<T>() + at, half, cosines, sines, args.outputs[0].as<T>() + at);
        }
      });
    }
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(rope);
void rope_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(rope)(args); }
}  // namespace spillway::ops
#endif
