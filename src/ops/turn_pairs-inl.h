// Rotates neighbouring elements, for kernels that Highway compiles once for each instruction set (see ops/simd.h).
#if defined(SPILLWAY_OPS_TURN_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_TURN_PAIRS_INL_H
#undef SPILLWAY_OPS_TURN_PAIRS_INL_H
#else
#define SPILLWAY_OPS_TURN_PAIRS_INL_H
#endif

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Turns (a, b) to (a c - b s, b c + a s), for all pairs of `size` elements; each cos and sin stands beside both
// elements of its pair. `out` may be x.
template <typename T>
void turn_pairs(const T* x, int64_t size, const float* cosines, const float* sines, T* out) {
#if HWY_TARGET == HWY_SCALAR  // a vector is no whole pair
  for (int64_t i = 0; i < size; i += 2) {
    const Vector a = load(x + i), b = load(x + i + 1), c = load(cosines + i), s = load(sines + i);
    store(hn::NegMulAdd(b, s, hn::Mul(a, c)), out + i);
    store(hn::MulAdd(a, s, hn::Mul(b, c)), out + i + 1);
  }
#else
  const auto turn = [](Vector v, Vector c, Vector s) HWY_ATTR {
    const Vector other = hn::Shuffle2301(v);  // of the pair
    return hn::MulAdd(other, hn::OddEven(s, hn::Neg(s)), hn::Mul(v, c));
  };
  map(0, size, turn, out, x, cosines, sines);
#endif
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
