#include "ops/attention/cpu/rows.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/cpu/rows.cc"
#include <hwy/foreach_target.h>

#include "ops/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using ops::HWY_NAMESPACE::exp_of;
using ops::HWY_NAMESPACE::score_of;
using ops::HWY_NAMESPACE::slope_of;
using Tag = ops::HWY_NAMESPACE::Floats;
static_assert(kScoreGranule % (2 * ops::HWY_NAMESPACE::kMaxLanes) == 0, "a span is a whole number of pairs of vectors");

void hide(float* scores, const RowSpan& span) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  for (int64_t i = span.begin; i < span.visible_begin; ++i) scores[i] = kHidden;
  for (int64_t i = span.visible_end; i < span.end; ++i) scores[i] = kHidden;
}

using Vector = hn::Vec<Tag>;

// Stores two vectors of f32 as bf16, rounded to the nearest, of two away from zero; the NaN of an invalid operation
// stays one.
HWY_INLINE void store_halves(Vector first, Vector second, uint16_t* to) {
  const hn::RebindToUnsigned<Tag> words;
  const auto half_place = hn::Set(words, 0x8000);
  const auto low = hn::Add(hn::BitCast(words, first), half_place);
  const auto high = hn::Add(hn::BitCast(words, second), half_place);
#if HWY_TARGET == HWY_SCALAR
  to[0] = static_cast<uint16_t>(hn::GetLane(low) >> 16);
  to[1] = static_cast<uint16_t>(hn::GetLane(high) >> 16);
#else
  const hn::Repartition<uint16_t, Tag> halves;
  hn::StoreU(hn::ConcatOdd(halves, hn::BitCast(halves, high), hn::BitCast(halves, low)), halves, to);
#endif
}

// Stores two vectors as columns from i on of a row of f32 or bf16. The narrower row never overtakes the f32 columns
// that are still to be read.
template <typename T>
HWY_INLINE void store_columns(Vector first, Vector second, float* row, int64_t i) {
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreU(first, Tag(), row + i);
    hn::StoreU(second, Tag(), row + i + static_cast<int64_t>(hn::Lanes(Tag())));
  } else {
    store_halves(first, second, reinterpret_cast<uint16_t*>(row) + i);
  }
}

// Returns e^x of an x up to 1, which is then rounded to bf16 and added up, within 3e-6 of itself; 0 below -87. NaN
// stays NaN. It has fewer operations than exp_of(): one step of reduction in place of two. The polynomial of 2^f, f in
// [-0.5, 0.5], is a minimax fit.
HWY_INLINE Vector exp_for_bf16(Vector x) {
  constexpr float kMin = -87, kLog2OfE = 1.44269504f;
  constexpr float kWhole = 12582912;  // 1.5 * 2^23: a sum with it is rounded to a whole number, in its lower bits
  const Tag d;
  const hn::RebindToUnsigned<Tag> words;
  const auto of = [&](float value) HWY_ATTR { return hn::Set(d, value); };
  const Vector shifted = hn::MulAdd(x, of(kLog2OfE), of(kWhole));
  const Vector f = hn::MulSub(x, of(kLog2OfE), hn::Sub(shifted, of(kWhole)));
  Vector p = of(1.326472615e-3f);
  p = hn::MulAdd(p, f, of(9.671512991e-3f));
  p = hn::MulAdd(p, f, of(5.550733581e-2f));
  p = hn::MulAdd(p, f, of(2.402224243e-1f));
  p = hn::MulAdd(p, f, of(6.931470037e-1f));
  p = hn::MulAdd(p, f, of(1));
  // Adds the whole part to the exponent.
  const auto bits = hn::Add(hn::BitCast(words, p), hn::ShiftLeft<23>(hn::BitCast(words, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, of(kMin)), hn::BitCast(d, bits));
}

// Returns e^x, as precise as an operand of type T has to be.
template <typename T>
HWY_INLINE Vector exp_as(Vector x) {
  if constexpr (std::is_same_v<T, float>) {
    return exp_of(x);
  } else {
    return exp_for_bf16(x);
  }
}

// Replaces products by their scores; then there is nothing left to scale. This is apart from the loops that follow, so
// that these are unchanged without a cap.
ScoreMap cap_scores(float* scores, const RowSpan& span, const ScoreMap& map) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = span.begin; i < span.end; i += lanes)
    hn::StoreU(score_of<true>(hn::LoadU(d, scores + i), map).v, d, scores + i);
  return {.scale = 1, .cap = map.cap};
}

// Returns the slope of scores over their products; of hidden ones, which are infinite, any number.
template <bool kCapped>
HWY_INLINE Vector finite_slope_of(Vector score, const ScoreMap& map) {
  return slope_of<kCapped>(kCapped ? hn::Max(score, hn::Set(Tag(), -map.cap)) : score, map).v;
}

template <typename T>
float softmax_row_as(float* scores, const RowSpan& span, const ScoreMap& map, SoftmaxState& state) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (span.visible_begin >= span.visible_end) {
    for (int64_t i = span.begin; i < span.end; i += 2 * lanes) store_columns<T>(hn::Zero(d), hn::Zero(d), scores, i);
    return 1;
  }
  const float scale = map.cap > 0 ? cap_scores(scores, span, map).scale : map.scale;
  hide(scores, span);
  const auto scale_v = hn::Set(d, scale);
  const auto load = [&](int64_t i) HWY_ATTR { return hn::LoadU(d, scores + i); };
  auto top = hn::Set(d, state.maximum), other_top = top;
  for (int64_t i = span.begin; i < span.end; i += 2 * lanes) {
    top = hn::Max(top, hn::Mul(load(i), scale_v));
    other_top = hn::Max(other_top, hn::Mul(load(i + lanes), scale_v));
  }
  const float maximum = hn::GetLane(hn::MaxOfLanes(d, hn::Max(top, other_top)));
  const auto maximum_v = hn::Set(d, maximum);
  auto sum = hn::Zero(d), other_sum = hn::Zero(d);
  for (int64_t i = span.begin; i < span.end; i += 2 * lanes) {
    const auto p = exp_as<T>(hn::MulSub(load(i), scale_v, maximum_v));
    const auto other_p = exp_as<T>(hn::MulSub(load(i + lanes), scale_v, maximum_v));
    store_columns<T>(p, other_p, scores, i);
    sum = hn::Add(sum, p);
    other_sum = hn::Add(other_sum, other_p);
  }
  const float factor = maximum == state.maximum ? 1 : std::exp(state.maximum - maximum);
  state.sum = state.sum * factor + hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, other_sum)));
  state.maximum = maximum;
  return factor;
}

// Does what softmax_grad_row() does with the vectors lse(i) and delta(i) of columns from i on.
template <typename T, bool kCapped, typename Lse, typename Delta>
HWY_INLINE void softmax_grad(float* scores, float* d_scores, const RowSpan& span, const ScoreMap& map, const Lse& lse,
                             const Delta& delta) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float scale = kCapped ? cap_scores(scores, span, map).scale : map.scale;
  hide(scores, span);
  const auto scale_v = hn::Set(d, scale);
  const auto probability = [&](int64_t i)
                               HWY_ATTR { return exp_as<T>(hn::MulSub(hn::LoadU(d, scores + i), scale_v, lse(i))); };
  const auto gradient = [&](int64_t i, Vector p) HWY_ATTR {
    const auto shifted = hn::Sub(hn::LoadU(d, d_scores + i), delta(i));
    return hn::Mul(hn::Mul(p, shifted), finite_slope_of<kCapped>(hn::LoadU(d, scores + i), map));
  };
  for (int64_t i = span.begin; i < span.end; i += 2 * lanes) {
    const auto p = probability(i), other_p = probability(i + lanes);
    const auto grad = gradient(i, p), other_grad = gradient(i + lanes, other_p);
    store_columns<T>(p, other_p, scores, i);
    store_columns<T>(grad, other_grad, d_scores, i);
  }
}

template <typename T, bool kCapped>
void softmax_grad_row_as(float* scores, float* d_scores, const RowSpan& span, const ScoreMap& map, float lse,
                         float delta) {
  const auto lse_v = hn::Set(Tag(), lse), delta_v = hn::Set(Tag(), delta);
  softmax_grad<T, kCapped>(
      scores, d_scores, span, map, [&](int64_t) HWY_ATTR { return lse_v; }, [&](int64_t) HWY_ATTR { return delta_v; });
}

template <typename T, bool kCapped>
void softmax_grad_columns_as(float* scores, float* d_scores, const RowSpan& span, const ScoreMap& map, const float* lse,
                             const float* delta) {
  softmax_grad<T, kCapped>(
      scores, d_scores, span, map, [&](int64_t i) HWY_ATTR { return hn::LoadU(Tag(), lse + i); },
      [&](int64_t i) HWY_ATTR { return hn::LoadU(Tag(), delta + i); });
}

float softmax_row(float* scores, const RowSpan& span, const ScoreMap& map, PanelFormat format, SoftmaxState& state) {
  return (format == PanelFormat::kF32 ? softmax_row_as<float> : softmax_row_as<bf16>)(scores, span, map, state);
}

template <typename T>
void softmax_grad_row_in(float* scores, float* d_scores, const RowSpan& span, const ScoreMap& map, float lse,
                         float delta) {
  const auto run = map.cap > 0 ? softmax_grad_row_as<T, true> : softmax_grad_row_as<T, false>;
  run(scores, d_scores, span, map, lse, delta);
}
void softmax_grad_row(float* scores, float* d_scores, const RowSpan& span, const ScoreMap& map, float lse, float delta,
                      PanelFormat format) {
  const bool is_f32 = format == PanelFormat::kF32;
  (is_f32 ? softmax_grad_row_in<float> : softmax_grad_row_in<bf16>)(scores, d_scores, span, map, lse, delta);
}

template <typename T>
void softmax_grad_columns_in(float* scores, float* d_scores, const RowSpan& span, const ScoreMap& map, const float* lse,
                             const float* delta) {
  const auto run = map.cap > 0 ? softmax_grad_columns_as<T, true> : softmax_grad_columns_as<T, false>;
  run(scores, d_scores, span, map, lse, delta);
}
void softmax_grad_columns(float* scores, float* d_scores, const RowSpan& span, const ScoreMap& map, const float* lse,
                          const float* delta, PanelFormat format) {
  const bool is_f32 = format == PanelFormat::kF32;
  (is_f32 ? softmax_grad_columns_in<float> : softmax_grad_columns_in<bf16>)(scores, d_scores, span, map, lse, delta);
}

float dot_f32(const float* a, const float* b, int64_t count) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) total += a[i] * b[i];
  return total;
}

float dot_bf16(const bf16* a, const bf16* b, int64_t count) {
  const Tag d;
  const hn::Rebind<uint16_t, Tag> d_half;
  const hn::Rebind<uint32_t, Tag> d_bits;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const bf16* from) {
    const auto halves = hn::LoadU(d_half, reinterpret_cast<const uint16_t*>(from));
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d_bits, halves)));
  };
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = hn::MulAdd(load(a + i), load(b + i), sum);
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) total += to_float(a[i]) * to_float(b[i]);
  return total;
}

void scale_row(float* values, int64_t count, float factor) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto factor_v = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, values + i), factor_v), d, values + i);
  for (; i < count; ++i) values[i] *= factor;
}

}  // namespace HWY_NAMESPACE
}  // namespace spillway::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::cpu {

HWY_EXPORT(softmax_row);
HWY_EXPORT(softmax_grad_row);
HWY_EXPORT(softmax_grad_columns);
HWY_EXPORT(dot_f32);
HWY_EXPORT(dot_bf16);
HWY_EXPORT(scale_row);

float softmax_row(float* products, const RowSpan& span, const ScoreMap& map, PanelFormat format, SoftmaxState& state) {
  return HWY_DYNAMIC_DISPATCH(softmax_row)(products, span, map, format, state);
}
void softmax_grad_row(float* products, float* d_scores, const RowSpan& span, const ScoreMap& map, float lse,
                      float delta, PanelFormat format) {
  HWY_DYNAMIC_DISPATCH(softmax_grad_row)(products, d_scores, span, map, lse, delta, format);
}
void softmax_grad_columns(float* products, float* d_scores, const RowSpan& span, const ScoreMap& map, const float* lse,
                          const float* delta, PanelFormat format) {
  HWY_DYNAMIC_DISPATCH(softmax_grad_columns)(products, d_scores, span, map, lse, delta, format);
}
float dot_row(const float* a, const float* b, int64_t count) { return HWY_DYNAMIC_DISPATCH(dot_f32)(a, b, count); }
float dot_row(const bf16* a, const bf16* b, int64_t count) { return HWY_DYNAMIC_DISPATCH(dot_bf16)(a, b, count); }
void scale_row(float* values, int64_t count, float factor) { HWY_DYNAMIC_DISPATCH(scale_row)(values, count, factor); }

}  // namespace spillway::cpu
#endif
