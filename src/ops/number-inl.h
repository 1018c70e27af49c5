// A number of an elementwise formula, which is written once for every device: `Number` is a vector of f32 in files that
// Highway compiles for each instruction set (ops/simd.h), and one f32 in all others, on a GPU and on the host.
//
// A formula stands between SPILLWAY_FORMULAS_BEGIN and SPILLWAY_FORMULAS_END, in a header that is included once for
// each instruction set:
//
//   #if defined(SPILLWAY_OPS_X_FORMULA_INL_H) == defined(HWY_TARGET_TOGGLE)
//   #ifdef SPILLWAY_OPS_X_FORMULA_INL_H
//   #undef SPILLWAY_OPS_X_FORMULA_INL_H
//   #else
//   #define SPILLWAY_OPS_X_FORMULA_INL_H
//   #endif
//   #include "ops/number-inl.h"
//   SPILLWAY_FORMULAS_BEGIN
//   struct Softsign {
//     SPILLWAY_NUMBER_FUNCTION static Number value(Number x) { return x / (1 + math::abs(x)); }
//   };
//   SPILLWAY_FORMULAS_END
//   #endif
//
// Numbers and floats mix. Both kinds compute the same operations in the same order. Where the compiler fuses no product
// with a sum (-ffp-contract=off, spillway_rounds_as_written), their bits are equal, except those of exp(), tanh()
// and mul_add().
#if defined(SPILLWAY_OPS_NUMBER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_NUMBER_INL_H
#undef SPILLWAY_OPS_NUMBER_INL_H
#else
#define SPILLWAY_OPS_NUMBER_INL_H
#endif

#include <bit>
#include <cmath>
#include <cstdint>

#include "ops/optimizers/either_side.h"

#ifdef HWY_TARGET_INCLUDE
#include "ops/vector-inl.h"

#define SPILLWAY_FORMULAS_BEGIN \
  HWY_BEFORE_NAMESPACE();       \
  namespace spillway::ops::HWY_NAMESPACE {
#define SPILLWAY_FORMULAS_END \
  }                           \
  HWY_AFTER_NAMESPACE();
#define SPILLWAY_NUMBER_FUNCTION HWY_INLINE

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

struct Number {
  HWY_INLINE Number() = default;
  HWY_INLINE Number(Vector vector) : v(vector) {}         // NOLINT(google-explicit-constructor): lanes of it
  HWY_INLINE Number(float value) : v(constant(value)) {}  // NOLINT(google-explicit-constructor): the same in all lanes

  Vector v;
};
// A comparison of numbers, for select().
struct Truth {
  hn::Mask<Floats> mask;
};

HWY_INLINE Number operator+(Number a, Number b) { return hn::Add(a.v, b.v); }
HWY_INLINE Number operator-(Number a) { return hn::Neg(a.v); }
HWY_INLINE Number operator-(Number a, Number b) { return hn::Sub(a.v, b.v); }
HWY_INLINE Number operator*(Number a, Number b) { return hn::Mul(a.v, b.v); }
HWY_INLINE Number operator/(Number a, Number b) { return hn::Div(a.v, b.v); }
HWY_INLINE Truth operator<(Number a, Number b) { return {hn::Lt(a.v, b.v)}; }
HWY_INLINE Truth operator!=(Number a, Number b) { return {hn::Ne(a.v, b.v)}; }

namespace math {

HWY_INLINE Number sqrt(Number x) { return hn::Sqrt(x.v); }
HWY_INLINE Number exp(Number x) { return exp_of(x.v); }
HWY_INLINE Number tanh(Number x) { return hn::Tanh(Floats(), x.v); }
HWY_INLINE Number abs(Number x) { return hn::Abs(x.v); }
// Returns the larger one, b if one of them is NaN.
HWY_INLINE Number max(Number a, Number b) { return hn::Max(a.v, b.v); }
HWY_INLINE Number min(Number a, Number b) { return hn::Min(a.v, b.v); }
// Returns the nearest whole number, the even one of two.
HWY_INLINE Number round(Number x) { return hn::Round(x.v); }
// Returns 2^floor(log2(x)) of a normal number above 0.
HWY_INLINE Number power_of_two_below(Number x) {
  return hn::BitCast(Floats(), hn::And(hn::BitCast(Words(), x.v), hn::Set(Words(), 0x7F800000)));
}
// Returns the magnitude of the one with the sign of the other.
HWY_INLINE Number copy_sign(Number magnitude, Number sign) { return hn::CopySign(magnitude.v, sign.v); }
// Returns a * b + c, rounded once where the instruction set can.
HWY_INLINE Number mul_add(Number a, Number b, Number c) { return hn::MulAdd(a.v, b.v, c.v); }
HWY_INLINE Truth is_finite(Number x) { return {hn::IsFinite(x.v)}; }
// Returns `yes` where the condition holds, else `no`. Both are computed.
HWY_INLINE Number select(Truth condition, Number yes, Number no) { return hn::IfThenElse(condition.mask, yes.v, no.v); }

}  // namespace math

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#else

#define SPILLWAY_FORMULAS_BEGIN namespace spillway::ops {
#define SPILLWAY_FORMULAS_END }
#define SPILLWAY_NUMBER_FUNCTION SPILLWAY_EITHER_SIDE inline

namespace spillway::ops {

using Number = float;
using Truth = bool;

namespace math {

SPILLWAY_NUMBER_FUNCTION float sqrt(float x) { return sqrtf(x); }
SPILLWAY_NUMBER_FUNCTION float exp(float x) { return expf(x); }
SPILLWAY_NUMBER_FUNCTION float tanh(float x) { return tanhf(x); }
SPILLWAY_NUMBER_FUNCTION float abs(float x) { return fabsf(x); }
SPILLWAY_NUMBER_FUNCTION float max(float a, float b) { return a > b ? a : b; }
SPILLWAY_NUMBER_FUNCTION float min(float a, float b) { return a < b ? a : b; }
SPILLWAY_NUMBER_FUNCTION float round(float x) { return rintf(x); }
SPILLWAY_NUMBER_FUNCTION float power_of_two_below(float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7F800000);
}
SPILLWAY_NUMBER_FUNCTION float copy_sign(float magnitude, float sign) { return copysignf(magnitude, sign); }
SPILLWAY_NUMBER_FUNCTION float mul_add(float a, float b, float c) { return a * b + c; }
SPILLWAY_NUMBER_FUNCTION bool is_finite(float x) { return std::isfinite(x); }
SPILLWAY_NUMBER_FUNCTION float select(bool condition, float yes, float no) { return condition ? yes : no; }

}  // namespace math

}  // namespace spillway::ops

#endif  // HWY_TARGET_INCLUDE

#endif  // per-target include guard
