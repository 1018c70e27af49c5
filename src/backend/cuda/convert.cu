// Traffic: what is read and written, once. Eight elements a thread, so that the narrower side moves 16 bytes.
#include <cuda_bf16.h>

#include <algorithm>

#include "backend/cuda/check.h"
#include "backend/cuda/convert.h"
#include "base/error.h"

namespace spillway::cuda {
namespace {

constexpr int kThreads = 256, kElems = 8;
constexpr int64_t kMostBlocks = 1 << 16;

template <typename To, typename From>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(To* __restrict__ to, const From* __restrict__ from, int64_t elems) {
  struct alignas(kElems * sizeof(From)) Read {
    From value[kElems];
  };
  struct alignas(kElems * sizeof(To)) Written {
    To value[kElems];
  };
  const int64_t stride = int64_t{gridDim.x} * kThreads * kElems;
  for (int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kElems; i < elems; i += stride) {
    if (i + kElems <= elems) {
      const Read read = *reinterpret_cast<const Read*>(from + i);
      Written written;
#pragma unroll
      for (int k = 0; k < kElems; ++k) written.value[k] = static_cast<To>(static_cast<float>(read.value[k]));
      *reinterpret_cast<Written*>(to + i) = written;
    } else {
      for (int64_t k = i; k < elems; ++k) to[k] = static_cast<To>(static_cast<float>(from[k]));
    }
  }
}

template <typename To, typename From>
void launch(void* to, const void* from, int64_t elems, cudaStream_t stream) {
  constexpr int64_t kBlock = int64_t{kThreads} * kElems;
  const auto blocks = static_cast<unsigned>(std::min(kMostBlocks, (elems + kBlock - 1) / kBlock));
  convert_kernel<<<blocks, kThreads, 0, stream>>>(static_cast<To*>(to), static_cast<const From*>(from), elems);
  check_launch("convert");
}

}  // namespace

void convert(void* to, DType to_type, const void* from, DType from_type, int64_t elems, cudaStream_t stream) {
  if (elems == 0) return;
  if (to_type == DType::kF32 && from_type == DType::kBF16) return launch<float, __nv_bfloat16>(to, from, elems, stream);
  if (to_type == DType::kBF16 && from_type == DType::kF32) return launch<__nv_bfloat16, float>(to, from, elems, stream);
  SPILLWAY_CHECK(to_type == from_type, "from {} to {}", name_of(from_type), name_of(to_type));
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(elems * size_of(to_type)), cudaMemcpyDeviceToDevice, stream),
        "to copy numbers on the GPU");
}

}  // namespace spillway::cuda
