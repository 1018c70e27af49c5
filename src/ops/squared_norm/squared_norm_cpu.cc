#include "base/sizes.h"
#include "ops/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/squared_norm/squared_norm_cpu.cc"
#include <hwy/foreach_target.h>

#include "base/math.h"
#include "ops/squared_norm/order.h"
#include "ops/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spillway::ops::HWY_NAMESPACE {

// The sums of a block fill registers where these have 16 lanes; with fewer lanes they are in the first cache.
constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));
constexpr int kVectors = kNormBlockSums / kLanes;

// Does steps 1 and 2 of the order, for a whole block.
template <typename T>
float block_squares(const T* x) {
  Vector sums[kVectors];
  for (Vector& sum : sums) sum = zero();
  for (int64_t row = 0; row < kNormBlockElems; row += kNormBlockSums) {
    for (int i = 0; i < kVectors; ++i) {
      const Vector v = load(x + row + i * kLanes);
      sums[i] = hn::Add(sums[i], hn::Mul(v, v));
    }
  }
  for (int half = kVectors / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sums[i] = hn::Add(sums[i], sums[i + half]);
  }
  alignas(64) float lane_sums[kLanes];
  store(sums[0], lane_sums);
  add_halves<kLanes>(lane_sums);
  return lane_sums[0];
}

// Does the same for the last block: zeros behind it change no sum.
template <typename T>
float block_squares(const T* x, int64_t count) {
  T block[kNormBlockElems] = {};
  copy_elems(block, x, count);
  return block_squares(block);
}

// Sets the sums of all blocks, and returns how many there are.
int64_t sum_blocks(const KernelArgs& args, float* sums) {
  const TensorView& x = args.inputs[0];
  const int64_t elems = x.elems(), blocks = div_ceil(elems, kNormBlockElems);
  with_real(x.dtype, [&]<typename T>(T*) {
    args.threads->parallel_for(blocks, kElementGrain / kNormBlockElems, [&](int64_t begin, int64_t end, int) HWY_ATTR {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * kNormBlockElems;
        const T* at = x.as<T>() + first;
        sums[block] = elems - first < kNormBlockElems ? block_squares(at, elems - first) : block_squares(at);
      }
    });
  });
  return blocks;
}

void squared_norm(const KernelArgs& args) {
  auto* const sums = reinterpret_cast<float*>(args.workspace);
  const int64_t blocks = sum_blocks(args, sums);
  *args.outputs[0].as<float>() = static_cast<float>(total_of(sums, blocks));
}

void squares_of_blocks(const KernelArgs& args) { sum_blocks(args, args.outputs[0].as<float>()); }

}  // namespace spillway::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::ops {
HWY_EXPORT(squared_norm);
HWY_EXPORT(squares_of_blocks);
void squared_norm_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(squared_norm)(args); }
void block_squares_cpu(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(squares_of_blocks)(args); }
}  // namespace spillway::ops
#endif
