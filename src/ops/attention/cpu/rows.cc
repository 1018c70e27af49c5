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
using Tag = ops::HWY_NAMESPACE::Floats;  // of which kScoreGranule is a whole number of vectors

void hide(float* scores, const RowSpan& span) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  for (int64_t i = span.begin; i < span.visible_begin; ++i) scores[i] = kHidden;
  for (int64_t i = span.visible_end; i < span.end; ++i) scores[i] = kHidden;
}

using Vector = hn::Vec<Tag>;

// Stores column i of a row as f32 or as bf16, rounded to the nearest even; the NaN of an invalid operation stays one.
// The narrower row never overtakes the f32 columns that are still to be read.
template <typename T>
HWY_INLINE void store_column(Vector value, float* row, int64_t i) {
  if constexpr (std::is_same_v<T, float>) {
    hn::StoreU(value, Tag(), row + i);
  } else {
    const hn::RebindToUnsigned<Tag> words;
    const hn::Rebind<uint16_t, Tag> halves;
    const auto bits = hn::BitCast(words, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7FFF)));
    hn::StoreU(hn::TruncateTo(halves, hn::ShiftRight<16>(rounded)), halves, reinterpret_cast<uint16_t*>(row) + i);
  }
}

// Replaces products by their scores; then there is nothing left to scale. This is apart from the loops that follow, so
// that these are unchanged without a cap.
ScoreMap cap_scores(float* scores, const RowSpan& span, const ScoreMap& map) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = span.begin; i < span.end; i += lanes)
    hn::StoreU(score_of<true>(hn::LoadU(d, scores + i), map), d, scores + i);
  return {.scale = 1, .cap = map.cap};
}

// Returns the slope of scores over their products; of hidden ones, which are infinite, any number.
template <bool kCapped>
HWY_INLINE Vector finite_slope_of(Vector score, const ScoreMap& map) {
  return slope_of<kCapped>(kCapped ? hn::Max(score, hn::Set(Tag(), -map.cap)) : score, map);
}

template <typename T>
float softmax_row_as(float* scores, const RowSpan& span, const ScoreMap& map, SoftmaxState& state) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (span.visible_begin >= span.visible_end) {
    for (int64_t i = span.begin; i < span.end; i += lanes) store_column<T>(hn::Zero(d), scores, i);
    return 1;
  }
  const float scale = map.cap > 0 ? cap_scores(scores, span, map).scale : map.scale;
  hide(scores, span);
  const auto scale_v = hn::Set(d, scale);
  auto top = hn::Set(d, state.maximum);
  for (int64_t i = span.begin; i < span.end; i += lanes) {
    const auto scaled = hn::Mul(hn::LoadU(d, scores + i), scale_v);
    hn::StoreU(scaled, d, scores + i);
    top = hn::Max(top, scaled);
  }
  const float maximum = hn::GetLane(hn::MaxOfLanes(d, top));
  const float factor = std::exp(state.maximum - maximum);
  const auto maximum_v = hn::Set(d, maximum);
  auto sum = hn::Zero(d);
  for (int64_t i = span.begin; i < span.end; i += lanes) {
    const auto p = exp_of(hn::Sub(hn::LoadU(d, scores + i), maximum_v));
    store_column<T>(p, scores, i);
    sum = hn::Add(sum, p);
  }
  state.sum = state.sum * factor + hn::GetLane(hn::SumOfLanes(d, sum));
  state.maximum = maximum;
  return factor;
}

template <typename T, bool kCapped>
void softmax_grad_row_as(float* scores, float* d_scores, const RowSpan& span, const ScoreMap& map, float lse,
                         float delta) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float scale = kCapped ? cap_scores(scores, span, map).scale : map.scale;
  hide(scores, span);
  const auto scale_v = hn::Set(d, scale), lse_v = hn::Set(d, lse), delta_v = hn::Set(d, delta);
  for (int64_t i = span.begin; i < span.end; i += lanes) {
    const auto score = hn::LoadU(d, scores + i);
    const auto p = exp_of(hn::MulSub(score, scale_v, lse_v));
    const auto shifted = hn::Sub(hn::LoadU(d, d_scores + i), delta_v);
    const auto grad = hn::Mul(hn::Mul(p, shifted), finite_slope_of<kCapped>(score, map));
    store_column<T>(p, scores, i);
    store_column<T>(grad, d_scores, i);
  }
}

template <typename T, bool kCapped>
void softmax_grad_columns_as(float* scores, float* d_scores, const RowSpan& span, const ScoreMap& map, const float* lse,
                             const float* delta) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float scale = kCapped ? cap_scores(scores, span, map).scale : map.scale;
  hide(scores, span);
  const auto scale_v = hn::Set(d, scale);
  for (int64_t i = span.begin; i < span.end; i += lanes) {
    const auto score = hn::LoadU(d, scores + i);
    const auto p = exp_of(hn::MulSub(score, scale_v, hn::LoadU(d, lse + i)));
    const auto shifted = hn::Sub(hn::LoadU(d, d_scores + i), hn::LoadU(d, delta + i));
    store_column<T>(p, scores, i);
    store_column<T>(hn::Mul(hn::Mul(p, shifted), finite_slope_of<kCapped>(score, map)), d_scores, i);
  }
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
