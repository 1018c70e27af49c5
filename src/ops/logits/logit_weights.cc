#include "ops/logits/logit_weights.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "base/index.h"
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/logits/logit_weights.cc"
#include <hwy/foreach_target.h>

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Returns the larger one. Comparing with NaN is false, so that it is passed over.
HWY_INLINE Vector larger(Vector so_far, Vector v) { return hn::IfThenElse(hn::Gt(v, so_far), v, so_far); }

float largest_logit(std::span<const float> logits) {
  const auto count = std::ssize(logits);
  const Vector lowest = constant(-std::numeric_limits<float>::infinity());
  Vector largest[4] = {lowest, lowest, lowest, lowest};  // chains that do not wait for each other
  int64_t i = 0;
  for (; i + 4 * lanes() <= count; i += 4 * lanes()) {
    for (int part = 0; part < 4; ++part) {
      largest[part] = larger(largest[part], load(logits.data() + i + part * lanes()));
    }
  }
  const Vector all = hn::Max(hn::Max(largest[0], largest[1]), hn::Max(largest[2], largest[3]));
  float result = hn::GetLane(hn::MaxOfLanes(Floats(), all));
  for (; i < count; ++i) {
    if (const float logit = nth(logits, i); logit > result) result = logit;
  }
  return result;
}

double logit_weights(std::span<const float> logits, float top, float factor, std::span<float> weights) {
  const Vector tops = constant(top), factors = constant(factor);
  const auto weight = [&](Vector v) HWY_ATTR {
    const Vector power = exp_of(hn::Mul(hn::Sub(v, tops), factors));
    return hn::IfThenElseZero(hn::Eq(v, v), power);
  };
  const auto count = std::ssize(logits);
  map(0, count, weight, weights.data(), logits.data());
  constexpr int64_t kChains = 8;
  std::array<double, kChains> sums{};
  int64_t i = 0;
  for (; i + kChains <= count; i += kChains) {
    for (int64_t chain = 0; chain < kChains; ++chain) nth(sums, chain) += weights.data()[i + chain];
  }
  for (; i < count; ++i) sums[0] += nth(weights, i);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {

HWY_EXPORT(largest_logit);
HWY_EXPORT(logit_weights);

float largest_logit(std::span<const float> logits) { return HWY_DYNAMIC_DISPATCH(largest_logit)(logits); }
double logit_weights(std::span<const float> logits, float top, float factor, std::span<float> weights) {
  return HWY_DYNAMIC_DISPATCH(logit_weights)(logits, top, factor, weights);
}

}  // namespace spillway::ops
#endif
