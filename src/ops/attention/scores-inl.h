// The formulas of attention's scores, for the kernels of both devices. A Score is a vector of f32 in files that Highway
// compiles for each instruction set, and one f32 in all others.
#if defined(SPILLWAY_OPS_ATTENTION_SCORES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ATTENTION_SCORES_INL_H
#undef SPILLWAY_OPS_ATTENTION_SCORES_INL_H
#else
#define SPILLWAY_OPS_ATTENTION_SCORES_INL_H
#endif

#include "ops/attention/scores.h"

#ifdef HWY_TARGET_INCLUDE

#include "ops/vector-inl.h"

#define SPILLWAY_SCORES_BEGIN \
  HWY_BEFORE_NAMESPACE();     \
  namespace spillway::ops::HWY_NAMESPACE {
#define SPILLWAY_SCORES_END \
  }                         \
  HWY_AFTER_NAMESPACE();
#define SPILLWAY_SCORE_FUNCTION HWY_INLINE

SPILLWAY_SCORES_BEGIN

using Score = Vector;
HWY_INLINE Score constant_score(float value) { return constant(value); }
HWY_INLINE Score times(Score x, float factor) { return hn::Mul(x, constant(factor)); }
HWY_INLINE Score divided(Score x, float divisor) { return hn::Mul(x, constant(1 / divisor)); }
HWY_INLINE Score one_less_square(Score x) { return hn::NegMulAdd(x, x, constant(1)); }
HWY_INLINE Score tanh_of(Score x) { return hn::Tanh(Floats(), x); }

SPILLWAY_SCORES_END

#else

#define SPILLWAY_SCORES_BEGIN namespace spillway::ops {
#define SPILLWAY_SCORES_END }
#define SPILLWAY_SCORE_FUNCTION SPILLWAY_EITHER_SIDE inline

SPILLWAY_SCORES_BEGIN

using Score = float;
SPILLWAY_SCORE_FUNCTION Score constant_score(float value) { return value; }
SPILLWAY_SCORE_FUNCTION Score times(Score x, float factor) { return x * factor; }
SPILLWAY_SCORE_FUNCTION Score divided(Score x, float divisor) { return x / divisor; }
SPILLWAY_SCORE_FUNCTION Score one_less_square(Score x) { return 1 - x * x; }
SPILLWAY_SCORE_FUNCTION Score tanh_of(Score x) { return tanhf(x); }

SPILLWAY_SCORES_END

#endif  // HWY_TARGET_INCLUDE

SPILLWAY_SCORES_BEGIN

// Returns the score of a product. Whether there is a cap is part of the kernel, so that a cap costs the others nothing.
template <bool kCapped>
SPILLWAY_SCORE_FUNCTION Score score_of(Score product, ScoreMap map) {
  if constexpr (kCapped) {
    return times(tanh_of(times(product, map.scale / map.cap)), map.cap);
  } else {
    return times(product, map.scale);
  }
}

// Returns the slope of a score over its product. REQUIRES: a capped score is finite.
template <bool kCapped>
SPILLWAY_SCORE_FUNCTION Score slope_of(Score score, ScoreMap map) {
  if constexpr (kCapped) {
    return times(one_less_square(divided(score, map.cap)), map.scale);
  } else {
    return constant_score(map.scale);
  }
}

SPILLWAY_SCORES_END

#undef SPILLWAY_SCORES_BEGIN
#undef SPILLWAY_SCORES_END
#undef SPILLWAY_SCORE_FUNCTION

#endif  // per-target include guard
