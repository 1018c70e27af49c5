// The names that kernels use: CUDA's own. A CUDA build has them from the toolkit; tests run the very same sources on
// the CPU, with the names from backend/testing/simt.h.
#pragma once

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "backend/cuda/check.h"
#else
#include "backend/testing/simt.h"
#endif

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace spillway::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFF;

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x) / kWarp; }

// Returns `value` as a T, rounded to nearest even.
template <typename T>
__device__ T from_float(float value) {
  return value;
}
template <>
__device__ inline bf16 from_float<bf16>(float value) {
#ifdef __CUDACC__
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};  // one instruction
#else
  return to_bf16(value);
#endif
}

// Returns the dynamic shared memory of the calling thread's block, of the launch's shared_bytes. Its address is a
// multiple of 1,024 bytes, as tiles for wgmma require.
__device__ inline std::byte* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(1024) uint4 memory[];
  return reinterpret_cast<std::byte*>(memory);
#else
  return simt::dynamic_shared();
#endif
}

// Stops the kernel if an index that the host has checked is out of range after all: a bug.
__device__ inline void require(bool condition) {
  if (!condition) __trap();
}

}  // namespace spillway::cuda
