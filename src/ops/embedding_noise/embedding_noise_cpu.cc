#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/embedding_noise/embedding_noise_cpu.cc"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "ops/embedding_noise/draws.h"
#include "ops/philox-inl.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

template <typename T>
void add_noise(const NoiseDraws& draws, int64_t row, float range, int64_t width, const T* x, T* y) {
  constexpr int64_t kNoisePiece = 256;
  const auto seed = static_cast<uint64_t>(*draws.seed), first = draws.first_block(row);
  const auto step = static_cast<int64_t>(4 * hn::Lanes(Wide()));
  alignas(64) uint32_t bits[kNoisePiece];
  alignas(64) float noise[kNoisePiece];
  for (int64_t at = 0; at < width; at += kNoisePiece) {
    for (int64_t i = 0; i < kNoisePiece; i += step)
      random_bits(seed, draws.stream, first + static_cast<uint64_t>((at + i) / 4), bits + i);
    for (int64_t i = 0; i < kNoisePiece; ++i) noise[i] = NoiseDraws::noise_of(bits[i], range);
    const auto sum = [](Vector a, Vector b) HWY_ATTR { return hn::Add(a, b); };
    map(0, std::min(kNoisePiece, width - at), sum, y + at, x + at, noise);
  }
}

void embedding_noise(const KernelArgs& args) {
  const TensorView& x = args.inputs[embedding_noise_op::kX];
  const NoiseDraws draws(args);
  const int64_t width = x.shape[1];
  const float range = draws.range();
  args.threads->parallel_for(x.shape[0], row_grain(2 * width), [&](int64_t begin, int64_t end, int) {
    with_real(x.dtype, [&]<typename T>(T*) {
      for (int64_t row = begin; row < end; ++row) {
        add_noise(draws, row, draws.has(row) ? range : 0, width, x.as<T>() + row * width,
                  args.outputs[0].as<T>() + row * width);
      }
    });
  });
}

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(embedding_noise);
void embedding_noise_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(embedding_noise)(args); }
}  // namespace spillway::ops
#endif
