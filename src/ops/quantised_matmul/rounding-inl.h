// Rounds decoded weights, which are numbers, so that NaN needs no care.
#if defined(SPILLWAY_OPS_QUANTISED_ROUNDING_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_QUANTISED_ROUNDING_INL_H
#undef SPILLWAY_OPS_QUANTISED_ROUNDING_INL_H
#else
#define SPILLWAY_OPS_QUANTISED_ROUNDING_INL_H
#endif

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Does the same as bf16_in_upper_halves(), in half the steps. NaN from arithmetic on infinite scales stays NaN, too;
// one with a payload may not.
HWY_INLINE hn::Vec<Words> number_in_upper_halves(Vector v) {
  const auto bits = hn::BitCast(Words(), v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(Words(), 1));
  return hn::Add(bits, hn::Add(odd, hn::Set(Words(), 0x7FFF)));
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
