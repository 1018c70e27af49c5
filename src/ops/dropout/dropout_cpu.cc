#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dropout/dropout_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "ops/dropout/drop_limit.h"
#include "ops/memory.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

using Wide = hn::ScalableTag<uint64_t>;
using Counters = hn::Vec<Wide>;

// The product of the low half of each lane with a 32-bit number.
HWY_INLINE Counters multiply_low(Counters x, uint32_t number) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Wide(), (hn::GetLane(x) & 0xFFFFFFFF) * number);
#else
  const hn::Repartition<uint32_t, Wide> halves;
  return hn::MulEven(hn::BitCast(halves, x), hn::Set(halves, number));
#endif
}

// Philox (base/random.h) of as many counters as a vector has lanes; writes four numbers for each, in order. Lanes hold
// 32-bit words whose upper halves are left as they come: only lower halves are multiplied and kept.
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

// Elements [begin, end), where begin is a multiple of kPiece.
constexpr int64_t kPiece = 256;

template <typename T>
void drop(const KernelArgs& args, uint64_t seed, int64_t begin, int64_t end) {
  const double p = args.attributes.real("p");
  const auto scale = static_cast<float>(1 / (1 - p));
  const uint32_t limit = drop_limit(p);
  const auto stream = static_cast<uint64_t>(args.attributes.integer("stream"));
  const T* x = args.inputs[0].as<T>();
  T* y = args.outputs[0].as<T>();
  const auto step = static_cast<int64_t>(4 * hn::Lanes(Wide()));
  alignas(64) uint32_t bits[kPiece];
  alignas(64) float factors[kPiece];
  for (int64_t at = begin; at < end; at += kPiece) {
    for (int64_t i = 0; i < kPiece; i += step) random_bits(seed, stream, static_cast<uint64_t>((at + i) / 4), bits + i);
    for (int64_t i = 0; i < kPiece; ++i) factors[i] = (bits[i] >> 8) < limit ? 0.0f : scale;
    const auto product = [](Vector a, Vector b) HWY_ATTR {
      return hn::IfThenZeroElse(hn::Eq(b, zero()), hn::Mul(a, b));  // a dropped infinity is zero, too
    };
    map(0, std::min(kPiece, end - at), product, y + at, x + at, factors);
  }
}

void dropout(const KernelArgs& args) {
  const TensorView &x = args.inputs[0], &y = args.outputs[0];
  const int64_t seed = *args.inputs[1].as<int64_t>(), elems = x.elems();
  if (seed < 0) {
    copy_tensor(x, y, *args.threads);
    return;
  }
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(div_ceil(elems, kPiece), kElementGrain / kPiece, [&](int64_t begin, int64_t end, int) {
      drop<T>(args, static_cast<uint64_t>(seed), begin * kPiece, std::min(elems, end * kPiece));
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(dropout);
void dropout_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(dropout)(args); }
}  // namespace spillway::ops
#endif
