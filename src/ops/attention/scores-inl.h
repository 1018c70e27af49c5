// The formulas of attention's scores, for the kernels of both devices (ops/number-inl.h).
#if defined(SPILLWAY_OPS_ATTENTION_SCORES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_ATTENTION_SCORES_INL_H
#undef SPILLWAY_OPS_ATTENTION_SCORES_INL_H
#else
#define SPILLWAY_OPS_ATTENTION_SCORES_INL_H
#endif

#include "ops/attention/scores.h"
#include "ops/number-inl.h"

SPILLWAY_FORMULAS_BEGIN

// Returns the score of a product. Whether there is a cap is part of the kernel, so that a cap costs the others nothing.
template <bool kCapped>
SPILLWAY_NUMBER_FUNCTION Number score_of(Number product, ScoreMap map) {
  if constexpr (kCapped) {
    return math::tanh(product * (map.scale / map.cap)) * map.cap;
  } else {
    return product * map.scale;
  }
}

// Returns the slope of a score over its product. REQUIRES: a capped score is finite.
template <bool kCapped>
SPILLWAY_NUMBER_FUNCTION Number slope_of(Number score, ScoreMap map) {
  if constexpr (kCapped) {
    const Number share = score * (1 / map.cap);
    return math::mul_add(-share, share, 1) * map.scale;
  } else {
    return map.scale;
  }
}

SPILLWAY_FORMULAS_END

#endif  // per-target include guard
