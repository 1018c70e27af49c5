#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dropout/dropout_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "base/math.h"
#include "ops/dropout/operands.h"
#include "ops/memory.h"
#include "ops/philox-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The unit of drop(), which takes elements [begin, end), where begin is a multiple of kPiece; in the stream, x begins
// at element `first`.
constexpr int64_t kPiece = 256;

template <typename T>
void drop(const KernelArgs& args, uint64_t seed, int64_t first, int64_t begin, int64_t end) {
  const double p = args.attributes.real("p");
  const auto scale = static_cast<float>(1 / (1 - p));
  const uint32_t limit = drop_limit(p);
  const auto stream = static_cast<uint64_t>(args.attributes.integer("stream"));
  const T* x = args.inputs[dropout_op::kX].as<T>();
  T* y = args.outputs[0].as<T>();
  const auto step = static_cast<int64_t>(4 * hn::Lanes(Wide()));
  alignas(64) uint32_t bits[kPiece];
  alignas(64) float factors[kPiece];
  for (int64_t at = begin; at < end; at += kPiece) {
    for (int64_t i = 0; i < kPiece; i += step)
      random_bits(seed, stream, static_cast<uint64_t>((first + at + i) / 4), bits + i);
    for (int64_t i = 0; i < kPiece; ++i) factors[i] = (bits[i] >> 8) < limit ? 0.0f : scale;
    const auto product = [](Vector a, Vector b) HWY_ATTR {
      return hn::IfThenZeroElse(hn::Eq(b, zero()), hn::Mul(a, b));  // a dropped infinity is zero, too
    };
    map(0, std::min(kPiece, end - at), product, y + at, x + at, factors);
  }
}

void dropout(const KernelArgs& args) {
  const TensorView &x = args.inputs[dropout_op::kX], &y = args.outputs[0];
  const int64_t seed = *args.inputs[dropout_op::kSeed].as<int64_t>(), elems = x.elems();
  if (seed < 0) {
    copy_tensor(x, y, *args.threads);
    return;
  }
  const int64_t first = DropPlace(args).first();
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(div_ceil(elems, kPiece), kElementGrain / kPiece, [&](int64_t begin, int64_t end, int) {
      drop<T>(args, static_cast<uint64_t>(seed), first, begin * kPiece, std::min(elems, end * kPiece));
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
