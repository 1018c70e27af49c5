// Computes sums and maxima over the threads of a warp or a block, always combined in the same order.
#pragma once

#include <limits>

#include "backend/cuda/kernel.cuh"

namespace spillway::cuda {

// The maximum of an empty set of numbers.
constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Returns the result in every lane; every lane of the warp must call. `kLanes`: over that many neighbouring lanes only.
template <int kLanes = kWarp, typename Op, typename T>
__device__ T warp_reduce(T value, Op op) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// Returns the result in every thread; every thread of the block, of kThreads, must call.
template <int kThreads, typename Op, typename T>
__device__ T block_reduce(T value, T neutral, Op op) {
  constexpr int kWarps = kThreads / kWarp;
  static_assert(kThreads % kWarp == 0 && kWarps <= kWarp);
  __shared__ T of_warps[kWarps];
  value = warp_reduce(value, op);
  if (lane_index() == 0) of_warps[warp_index()] = value;
  __syncthreads();
  value = warp_reduce(lane_index() < kWarps ? of_warps[lane_index()] : neutral, op);
  __syncthreads();  // of_warps may be written again
  return value;
}

template <int kThreads, typename T>
__device__ T block_sum(T value) {
  return block_reduce<kThreads>(value, T{0}, Sum());
}

}  // namespace spillway::cuda
