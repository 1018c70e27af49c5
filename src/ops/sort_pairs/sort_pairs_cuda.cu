// A counting sort: a block for each expert reads all pairs, twice, which are few enough to stay in the cache. Not yet
// measured.
#include "backend/cuda/launch.cuh"
#include "backend/cuda/reduce.cuh"
#include "backend/kernel.h"

namespace spillway::ops {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / cuda::kWarp;

__device__ int32_t count_bits(unsigned bits) {
  bits -= bits >> 1 & 0x55555555;
  bits = (bits & 0x33333333) + (bits >> 2 & 0x33333333);
  return static_cast<int32_t>(((bits + (bits >> 4)) & 0x0F0F0F0F) * 0x01010101 >> 24);
}

__global__ void __launch_bounds__(kThreads) count_pairs_kernel(const int32_t* expert, int64_t pairs, int32_t* counts) {
  int32_t count = 0;
  for (int64_t p = threadIdx.x; p < pairs; p += kThreads)
    count += expert[p] == static_cast<int32_t>(blockIdx.x) ? 1 : 0;
  count = cuda::block_sum<kThreads>(count);
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// Places the pairs of an expert, of which the block knows where they begin.
__global__ void __launch_bounds__(kThreads)
    place_pairs_kernel(const int32_t* expert, int64_t pairs, const int32_t* counts, int32_t* order, int32_t* inverse,
                       int32_t* offsets) {
  __shared__ int32_t of_warps[kWarps];
  const auto own = static_cast<int32_t>(blockIdx.x);
  int32_t place = 0;
  for (int32_t e = static_cast<int32_t>(threadIdx.x); e < own; e += kThreads) place += counts[e];
  place = cuda::block_sum<kThreads>(place);
  if (threadIdx.x == 0) {
    if (own == 0) offsets[0] = 0;
    offsets[own + 1] = place + counts[own];
  }
  for (int64_t first = 0; first < pairs; first += kThreads) {
    const int64_t p = first + threadIdx.x;
    const bool is_own = p < pairs && expert[p] == own;
    const unsigned votes = __ballot_sync(cuda::kAllLanes, is_own);
    if (cuda::lane_index() == 0) of_warps[cuda::warp_index()] = count_bits(votes);
    __syncthreads();
    int32_t before = count_bits(votes & ((1u << cuda::lane_index()) - 1)), all = 0;
    for (int w = 0; w < kWarps; ++w) {
      before += w < cuda::warp_index() ? of_warps[w] : 0;
      all += of_warps[w];
    }
    if (is_own) {
      order[place + before] = static_cast<int32_t>(p);
      inverse[p] = place + before;
    }
    place += all;
    __syncthreads();  // of_warps is written again
  }
}

}  // namespace

void sort_pairs_cuda(const KernelArgs& args) {
  const TensorView& experts = args.inputs[0];
  const int64_t count = args.outputs[2].elems() - 1;
  auto* const counts = reinterpret_cast<int32_t*>(args.workspace);
  const cuda::Grid grid{count, kThreads};
  cuda::launch(count_pairs_kernel, grid, args.stream, experts.as<int32_t>(), experts.elems(), counts);
  cuda::launch(place_pairs_kernel, grid, args.stream, experts.as<int32_t>(), experts.elems(), counts,
               args.outputs[0].as<int32_t>(), args.outputs[1].as<int32_t>(), args.outputs[2].as<int32_t>());
}

}  // namespace spillway::ops
