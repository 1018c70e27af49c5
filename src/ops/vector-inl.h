// Loads and stores f32 and bf16 as vectors of f32, for kernels that Highway compiles once for each instruction set (see
// ops/simd.h). Everything here is local to the namespace of one set.
//
// The result for an element never depends on where a chunk of work begins: the last, incomplete vector of a range goes
// through the same arithmetic as the others.
#if defined(SPILLWAY_OPS_VECTOR_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_VECTOR_INL_H
#undef SPILLWAY_OPS_VECTOR_INL_H
#else
#define SPILLWAY_OPS_VECTOR_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include "base/sizes.h"
#include "ops/simd.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<uint16_t, Floats>;
using Vector = hn::Vec<Floats>;

// The most lanes in any of the instruction sets.
constexpr int64_t kMaxLanes = 16;

HWY_INLINE int64_t lanes() { return static_cast<int64_t>(hn::Lanes(Floats())); }
HWY_INLINE Vector constant(float value) { return hn::Set(Floats(), value); }
HWY_INLINE Vector zero() { return hn::Zero(Floats()); }

HWY_INLINE Vector load(const float* from) { return hn::LoadU(Floats(), from); }
HWY_INLINE Vector load(const bf16* from) {
  const auto bits = hn::LoadU(Halves(), reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), bits)));
}

HWY_INLINE void store(Vector v, float* to) { hn::StoreU(v, Floats(), to); }
// Returns the bits of bf16 in the upper halves, rounded to nearest even, anything below; NaN stays NaN.
HWY_INLINE hn::Vec<Words> bf16_in_upper_halves(Vector v) {
  const Words words;
  const auto bits = hn::BitCast(words, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7FFF)));
  const auto nan = hn::Or(bits, hn::Set(words, 0x400000));
  return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), nan, rounded);
}
HWY_INLINE void store(Vector v, bf16* to) {
  const auto bits = hn::TruncateTo(Halves(), hn::ShiftRight<16>(bf16_in_upper_halves(v)));
  hn::StoreU(bits, Halves(), reinterpret_cast<uint16_t*>(to));
}
// Rounds to f16 and returns that as f32, to nearest even; NaN stays NaN. Works on bits, as Highway's own conversion
// rounds otherwise on some sets.
HWY_INLINE Vector round_to_f16(Vector v) {
  const Words words;
  const Vector magnitude = hn::Abs(v);
  const auto bits = hn::BitCast(words, magnitude);
  const auto odd = hn::And(hn::ShiftRight<13>(bits), hn::Set(words, 1));
  const auto rounded = hn::AndNot(hn::Set(words, 0x1FFF), hn::Add(bits, hn::Add(odd, hn::Set(words, 0xFFF))));
  // Subnormal ones are multiples of 2^-24: of the last place of numbers from 0.5 to 1.
  const Vector aligned = hn::Sub(hn::Add(magnitude, constant(0.5f)), constant(0.5f));
  Vector result = hn::IfThenElse(hn::Lt(magnitude, constant(0x1p-14f)), aligned, hn::BitCast(Floats(), rounded));
  result = hn::IfThenElse(hn::Ge(magnitude, constant(65520)), hn::Inf(Floats()), result);
  return hn::IfThenElse(hn::IsNaN(v), v, hn::CopySign(result, v));
}
// Returns v rounded to a dtype.
HWY_INLINE Vector round_to(DType dtype, Vector v) {
  if (dtype == DType::kBF16)
    return hn::BitCast(Floats(), hn::And(bf16_in_upper_halves(v), hn::Set(Words(), 0xFFFF0000)));
  return dtype == DType::kF16 ? round_to_f16(v) : v;
}

// Loads the first `count` lanes, 0 < count < lanes(); the others are zero.
template <typename T>
HWY_INLINE Vector load_some(const T* from, int64_t count) {
  alignas(64) T buffer[kMaxLanes] = {};
  copy_elems(buffer, from, count);
  return load(buffer);
}
template <typename T>
HWY_INLINE void store_some(Vector v, T* to, int64_t count) {
  alignas(64) T buffer[kMaxLanes];
  store(v, buffer);
  copy_elems(to, buffer, count);
}

// Load and store the first `count` lanes, 0 < count <= lanes().
template <typename T>
HWY_INLINE Vector load_first(const T* from, int64_t count) {
  return count == lanes() ? load(from) : load_some(from, count);
}
template <typename T>
HWY_INLINE void store_first(Vector v, T* to, int64_t count) {
  count == lanes() ? store(v, to) : store_some(v, to, count);
}

// Sets out[i] = f(in[i]...) for i in [begin, end).
template <typename Function, typename Out, typename... In>
HWY_INLINE void map(int64_t begin, int64_t end, const Function& f, Out* out, const In*... in) {
  int64_t i = begin;
  for (; i + lanes() <= end; i += lanes()) store(f(load(in + i)...), out + i);
  if (i < end) store_some(f(load_some(in + i, end - i)...), out + i, end - i);
}

// Returns the sum of f(in[i]...) for i in [0, count), in an order that depends on count alone. f(zeros) must be zero.
template <typename Function, typename... In>
HWY_INLINE float sum(int64_t count, const Function& f, const In*... in) {
  Vector sums[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * lanes() <= count; i += 4 * lanes()) {
    for (int part = 0; part < 4; ++part) sums[part] = hn::Add(sums[part], f(load(in + i + part * lanes())...));
  }
  for (; i + lanes() <= count; i += lanes()) sums[0] = hn::Add(sums[0], f(load(in + i)...));
  if (i < count) sums[1] = hn::Add(sums[1], f(load_some(in + i, count - i)...));
  return hn::GetLane(hn::SumOfLanes(Floats(), hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]))));
}

// Returns e^x, within two units in the last place; 0 below -87.3, where it would not be a normal number, and infinity
// from 88.4 on. NaN stays NaN. It takes three quarters of the time of Highway's, which covers the ends of the range as
// well: softmax and gates are mostly this. The polynomial is that of Cephes' expf (Moshier, 1989).
HWY_INLINE Vector exp_of(Vector x) {
  constexpr float kMin = -87.3f, kMax = 89;
  constexpr float kHalfOfLn2 = 0.693359375f, kRestOfLn2 = -2.12194440e-4f;
  constexpr float kWhole = 12582912;  // 1.5 * 2^23: a sum with it is rounded to a whole number, in its lower bits
  const Words words;
  const Vector below = hn::IfThenElse(hn::Gt(x, constant(kMax)), constant(kMax), x);  // NaN stays
  const Vector shifted = hn::MulAdd(below, constant(1.44269504f), constant(kWhole));
  const Vector n = hn::Sub(shifted, constant(kWhole));
  const Vector r = hn::NegMulAdd(n, constant(kRestOfLn2), hn::NegMulAdd(n, constant(kHalfOfLn2), below));
  Vector p = constant(1.9875691500e-4f);
  p = hn::MulAdd(p, r, constant(1.3981999507e-3f));
  p = hn::MulAdd(p, r, constant(8.3334519073e-3f));
  p = hn::MulAdd(p, r, constant(4.1665795894e-2f));
  p = hn::MulAdd(p, r, constant(1.6666665459e-1f));
  p = hn::MulAdd(p, r, constant(5.0000001201e-1f));
  p = hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), constant(1));
  // 2^n, whose exponent is n + 127.
  const auto exponent = hn::Add(hn::BitCast(words, shifted), hn::Set(words, 127));
  const Vector power = hn::BitCast(Floats(), hn::ShiftLeft<23>(exponent));
  return hn::IfThenZeroElse(hn::Lt(x, constant(kMin)), hn::Mul(p, power));
}

// Returns 1 / (1 + exp(-x)), without overflow on either side.
HWY_INLINE Vector sigmoid(Vector x) {
  const Vector small = exp_of(hn::Neg(hn::Abs(x)));
  const Vector numerator = hn::IfThenElse(hn::Lt(x, zero()), small, constant(1));
  return hn::Div(numerator, hn::Add(constant(1), small));
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
