// Launches kernels on a stream, and makes the two copies that need no kernel. Nothing here allocates or synchronises,
// and all of it can be captured in a graph.
#pragma once

#include <algorithm>
#include <utility>

#include "backend/cuda/kernel.cuh"
#include "base/math.h"
#include "tensor/view.h"

namespace spillway::cuda {

// A one-dimensional grid. Every GPU takes up to 2^31 - 1 blocks.
struct Grid {
  int64_t blocks = 0;
  int threads = 0;  // of a block, a multiple of kWarp
  int64_t shared_bytes = 0;
};

// Returns the threads for a block that goes through `vectors` vectors of a row: no more than it has work for.
inline int threads_for(int64_t vectors) {
  constexpr int64_t kMax = 256;
  return static_cast<int>(std::min(kMax, align_up(std::max<int64_t>(1, vectors), kWarp)));
}

// Runs kernel(args...) on `stream`, a cudaStream_t. Does nothing without blocks.
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), const Grid& grid, void* stream, Args&&... args) {
  if (grid.blocks == 0) return;
  // A block has 48 KiB without asking, its static arrays included; those stay below the 8 KiB left here.
  constexpr int64_t kSharedWithoutAsking = 40 << 10;
  if (grid.shared_bytes > kSharedWithoutAsking) {
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               narrow<int>(grid.shared_bytes)),
          "a kernel's shared memory to be granted");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(narrow<int>(grid.blocks)));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = static_cast<size_t>(grid.shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(std::forward<Args>(args))...),
        "a kernel to be launched");
}

inline void copy_bytes(const void* from, void* to, int64_t bytes, void* stream) {
  if (from == to || bytes == 0) return;
  check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                        static_cast<cudaStream_t>(stream)),
        "a copy on the GPU to be launched");
}

inline void zero_bytes(void* to, int64_t bytes, void* stream) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(to, 0, static_cast<size_t>(bytes), static_cast<cudaStream_t>(stream)),
        "a memset on the GPU to be launched");
}

// Copies `from` to `to`, or writes zeros if there is none. REQUIRES: equal bytes; they share all memory or none.
inline void copy_or_zero(const TensorView& from, const TensorView& to, void* stream) {
  if (from.data != nullptr) {
    copy_bytes(from.data, to.data, to.bytes(), stream);
  } else {
    zero_bytes(to.data, to.bytes(), stream);
  }
}

}  // namespace spillway::cuda
