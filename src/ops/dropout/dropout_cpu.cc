#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dropout/dropout_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/math.h"
#include "base/random.h"
#include "ops/memory.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// Philox's rounds (base/random.h) on kCounters counters side by side, in loops that compile to vectors; what comes out
// stands in the order of the elements.
constexpr int64_t kCounters = 16;

void random_bits(uint64_t seed, uint64_t stream, uint64_t first_counter, uint32_t* bits) {
  uint32_t x[4][kCounters];
  for (int64_t i = 0; i < kCounters; ++i) {
    const uint64_t counter = first_counter + static_cast<uint64_t>(i);
    x[0][i] = static_cast<uint32_t>(counter);
    x[1][i] = static_cast<uint32_t>(counter >> 32);
    x[2][i] = static_cast<uint32_t>(stream);
    x[3][i] = static_cast<uint32_t>(stream >> 32);
  }
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int64_t i = 0; i < kCounters; ++i) {
      const uint64_t a = uint64_t{0xD2511F53} * x[0][i], b = uint64_t{0xCD9E8D57} * x[2][i];
      x[0][i] = static_cast<uint32_t>(b >> 32) ^ x[1][i] ^ key0;
      x[1][i] = static_cast<uint32_t>(b);
      x[2][i] = static_cast<uint32_t>(a >> 32) ^ x[3][i] ^ key1;
      x[3][i] = static_cast<uint32_t>(a);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (int64_t i = 0; i < kCounters; ++i) {
    for (int64_t part = 0; part < 4; ++part) bits[4 * i + part] = x[part][i];
  }
}

// Elements [begin, end), where begin is a multiple of kPiece.
constexpr int64_t kPiece = 4 * kCounters;

template <typename T>
void drop(const KernelArgs& args, uint64_t seed, int64_t begin, int64_t end) {
  const double p = args.attributes.real("p");
  const auto threshold = static_cast<float>(p), scale = static_cast<float>(1 / (1 - p));
  const auto stream = static_cast<uint64_t>(args.attributes.integer("stream"));
  const T* x = args.inputs[0].as<T>();
  T* y = args.outputs[0].as<T>();
  alignas(64) uint32_t bits[kPiece];
  alignas(64) float factors[kPiece];
  for (int64_t at = begin; at < end; at += kPiece) {
    random_bits(seed, stream, static_cast<uint64_t>(at / 4), bits);
    for (int64_t i = 0; i < kPiece; ++i) factors[i] = uniform_float(bits[i]) < threshold ? 0.0f : scale;
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
