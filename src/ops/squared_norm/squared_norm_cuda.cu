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

// Sets the sums of all blocks of x, and returns how many there are.
int64_t sum_blocks(const TensorView& x, float* sums, void* stream) {
  const int64_t blocks = div_ceil(x.elems(), kNormBlockElems);
  with_real(x.dtype, [&]<typename T>(T*) {
    cuda::launch(partial_squares_kernel<T>, {div_ceil(blocks, int64_t{kWarps}), kWarps * cuda::kWarp}, stream,
                 x.as<T>(), x.elems(), blocks, sums);
  });
  return blocks;
}

struct StoreNorm {
  float* out;
  __device__ void operator()(double total) const { *out = static_cast<float>(total); }
};

}  // namespace

void block_squares_cuda(const KernelArgs& args) {
  sum_blocks(args.inputs[0], args.outputs[0].as<float>(), args.stream);
}

void squared_norm_cuda(const KernelArgs& args) {
  auto* partial = reinterpret_cast<float*>(args.workspace);
  const int64_t blocks = sum_blocks(args.inputs[0], partial, args.stream);
  add_total(partial, blocks, StoreNorm{args.outputs[0].as<float>()}, args.stream);
}

void squared_norm_of_blocks_cuda(const KernelArgs& args) {
  auto* all = reinterpret_cast<float*>(args.workspace);
  int64_t count = 0;
  for (const TensorView& sums : args.inputs) {
    cuda::copy_bytes(sums.as<float>(), all + count, sums.bytes(), args.stream);
    count += sums.elems();
  }
  add_total(all, count, StoreNorm{args.outputs[0].as<float>()}, args.stream);
}

}  // namespace spillway::ops
