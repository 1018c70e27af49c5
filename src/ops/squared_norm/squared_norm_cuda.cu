// The kernels are bound by memory: x is read once; a partial sum for every kNormBlockElems elements is next to nothing.
// Not yet measured.
//
// Compiled without fusing, so that the bits are those of squared_norm_cpu.cc.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/cuda/vector.cuh"
#include "backend/kernel.h"
#include "ops/real.h"
#include "ops/squared_norm/total.cuh"

namespace spillway::ops {
namespace {

constexpr int kWarps = 8;

// Uses a warp for every block of the order. In a row of kNormBlockSums elements a lane has neighbours of 16 bytes, of
// f32 in two places.
template <typename T>
__global__ void __launch_bounds__(kWarps* cuda::kWarp)
    partial_squares_kernel(const T* x, int64_t elems, int64_t blocks, float* partial) {
  constexpr int kWidth = cuda::kVector<T>, kRun = cuda::kWarp * kWidth, kRuns = kNormBlockSums / kRun;
  const int64_t block = int64_t{blockIdx.x} * kWarps + cuda::warp_index();
  if (block >= blocks) return;
  x += block * kNormBlockElems;
  elems = std::min(int64_t{kNormBlockElems}, elems - block * kNormBlockElems);
  float sums[kRuns * kWidth] = {};
  const auto add = [&](int run, const cuda::Floats<kWidth>& v) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sums[run * kWidth + i] += v[i] * v[i];
  };
  const int64_t lane_begin = cuda::lane_index() * kWidth;
  if (elems == kNormBlockElems && cuda::is_aligned<kWidth>(x)) {
#pragma unroll 4  // loads that are under way at once
    for (int64_t row = 0; row < kNormBlockElems; row += kNormBlockSums) {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) add(run, cuda::load_aligned<kWidth>(x + row + run * kRun + lane_begin));
    }
  } else {
    for (int64_t row = 0; row < elems; row += kNormBlockSums) {
#pragma unroll
      for (int run = 0; run < kRuns; ++run) {
        const int64_t begin = row + run * kRun + lane_begin;
        if (begin < elems) add(run, cuda::load(x, cuda::span_at<kWidth>(begin, elems)));
      }
    }
  }
  add_halves<kRuns * kWidth, kWidth>(sums);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) sums[i] = cuda::warp_reduce(sums[i], cuda::Sum());
  add_halves<kWidth>(sums);
  if (cuda::lane_index() == 0) partial[block] = sums[0];
}

struct StoreNorm {
  float* out;
  __device__ void operator()(double total) const { *out = static_cast<float>(total); }
};

}  // namespace

void squared_norm_cuda(const KernelArgs& args) {
  const TensorView& x = args.inputs[0];
  const int64_t blocks = div_ceil(x.elems(), kNormBlockElems);
  auto* partial = reinterpret_cast<float*>(args.workspace);
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(partial_squares_kernel<T>, {div_ceil(blocks, int64_t{kWarps}), kWarps * cuda::kWarp}, args.stream,
                 x.as<T>(), x.elems(), blocks, partial);
  });
  add_total(partial, blocks, StoreNorm{args.outputs[0].as<float>()}, args.stream);
}

}  // namespace spillway::ops
