// Random numbers by vectors, for kernels that Highway compiles once for each instruction set (see ops/simd.h).
#if defined(SPILLWAY_OPS_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_OPS_PHILOX_INL_H
#undef SPILLWAY_OPS_PHILOX_INL_H
#else
#define SPILLWAY_OPS_PHILOX_INL_H
#endif

#include <cstring>

#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

using Wide = hn::ScalableTag<uint64_t>;
using Counters = hn::Vec<Wide>;

// Returns the product of the low half of each lane with a 32-bit number.
HWY_INLINE Counters multiply_low(Counters x, uint32_t number) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Wide(), (hn::GetLane(x) & 0xFFFFFFFF) * number);
#else
  const hn::Repartition<uint32_t, Wide> halves;
  return hn::MulEven(hn::BitCast(halves, x), hn::Set(halves, number));
#endif
}

// Computes Philox (base/random.h) for as many counters as a vector has lanes; writes four numbers for each, in order.
// Lanes hold 32-bit words with arbitrary upper halves: only lower halves are multiplied and kept.
HWY_INLINE void random_bits(uint64_t seed, uint64_t stream, uint64_t counter, uint32_t* bits) {
  const Wide wide;
  const Counters counters = hn::Add(hn::Set(wide, counter), hn::Iota(wide, 0));
  Counters x0 = counters, x1 = hn::ShiftRight<32>(counters);
  Counters x2 = hn::Set(wide, stream), x3 = hn::Set(wide, stream >> 32);
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Counters a = multiply_low(x0, 0xD2511F53), b = multiply_low(x2, 0xCD9E8D57);
    x0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), x1), hn::Set(wide, key0));
    x1 = b;
    x2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), x3), hn::Set(wide, key1));
    x3 = a;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  const Counters low = hn::Set(wide, 0xFFFFFFFF);
  const Counters first = hn::Or(hn::And(x0, low), hn::ShiftLeft<32>(x1));
  const Counters second = hn::Or(hn::And(x2, low), hn::ShiftLeft<32>(x3));
  alignas(64) uint64_t pairs[2][kMaxLanes / 2];
  hn::Store(first, wide, pairs[0]);
  hn::Store(second, wide, pairs[1]);
  auto* out = reinterpret_cast<std::byte*>(bits);
  for (size_t i = 0; i < hn::Lanes(wide); ++i) {
    std::memcpy(out + 16 * i, &pairs[0][i], 8);
    std::memcpy(out + 16 * i + 8, &pairs[1][i], 8);
  }
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
