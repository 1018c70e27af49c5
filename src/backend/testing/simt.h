// Emulates CUDA on the CPU, for tests: the parts of the language and the runtime that kernels need, as plain C++, so
// that a .cu file included in a C++ file runs without a GPU. Included by backend/cuda/kernel.cuh only.
//
// Blocks run one after another, their threads as fibers; both in an order that is shuffled by a seed, so that work
// which relies on an order gives other bits with another seed. These are failures (std::logic_error):
//   - a barrier or a warp's exchange that some thread never reaches, or that threads reach at different lines
//   - writing past the dynamic shared memory that the launch asked for
//   - a launch that no GPU takes: blocks of no whole warps, more than 1024 threads, too much shared memory
// Dynamic shared memory starts as NaN. Static shared memory keeps what the block before left there, as on a GPU.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

// NOLINTBEGIN(readability-identifier-naming): the names are CUDA's.
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

using cudaStream_t = struct CUstream_st*;
enum cudaError_t { cudaSuccess, cudaErrorNotReady };
enum cudaStreamFlags { cudaStreamNonBlocking };
enum cudaMemcpyKind { cudaMemcpyDeviceToDevice };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace spillway::simt {

// Sets the order of blocks and of threads, in all launches from now on.
void set_order(uint64_t seed);
// Returns 80, or the value of SPILLWAY_EMULATED_GPU: 90 has wgmma, and more shared memory.
[[nodiscard]] int compute_capability();
// Runs `thread` for every thread of every block, with threadIdx and the others set; one launch at a time, whichever
// thread of the test it comes from.
void run(const cudaLaunchConfig_t& config, const std::function<void()>& thread);

// The following are called by a running thread.
[[nodiscard]] std::byte* dynamic_shared();
void block_barrier(int line);
// Exchanges eight bytes between lanes: returns a pointer to those of all 32, valid until the lane's next exchange.
[[nodiscard]] const uint64_t* exchange(uint64_t given, unsigned mask, int line);
[[nodiscard]] unsigned lane();
[[noreturn]] void fail(std::string_view what);

template <typename T>
[[nodiscard]] T value_of_lane(T value, unsigned from, unsigned mask, int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(bits, mask, line)[from];
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

// Operations of PTX by all lanes of a warp. This is mma.m16n8k16 of bf16: words of two neighbours along the depth, f32
// sums in the depth's order.
void multiply_add(float (&sums)[4], const unsigned (&left)[4], const unsigned (&right)[2], int line = __builtin_LINE());
// Emulates ldmatrix.m8n8.x4: each lane's row of 16 bytes, aligned so, becomes words of all lanes.
void load_matrices(const void* row, bool transposed, unsigned (&words)[4], int line = __builtin_LINE());
// Emulates cp.async of `size` bytes; bytes beyond `bytes` are zeros. A copy is late: it happens when its group is
// waited for, and not before.
void start_copy(void* shared, const void* global, int size, int bytes);
void commit_copies();
void wait_for_copies(int pending);

}  // namespace spillway::simt

inline void __syncthreads(int line = __builtin_LINE()) { spillway::simt::block_barrier(line); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFF, int line = __builtin_LINE()) {
  (void)spillway::simt::exchange(0, mask, line);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int line = __builtin_LINE()) {
  return spillway::simt::value_of_lane(value, static_cast<unsigned>(lane), mask, line);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int = 32, int line = __builtin_LINE()) {
  return spillway::simt::value_of_lane(value, spillway::simt::lane() ^ static_cast<unsigned>(distance), mask, line);
}
inline unsigned __ballot_sync(unsigned mask, bool vote, int line = __builtin_LINE()) {
  const uint64_t* votes = spillway::simt::exchange(vote, mask, line);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i) bits |= static_cast<unsigned>(votes[i]) << i;
  return bits;
}
inline int atomicMax(int* address, int value) {
  const int old = *address;
  if (value > old) *address = value;
  return old;
}
inline int __ffs(unsigned bits) { return __builtin_ffs(static_cast<int>(bits)); }
[[noreturn]] inline void __trap() { spillway::simt::fail("a kernel met an index out of range"); }

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
// Device memory is the host's, and work in a stream is done at once.
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, cudaStreamFlags) { return cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
template <typename... Params, typename... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Args&&... args) {
  spillway::simt::run(*config, [&] { kernel(args...); });
  return cudaSuccess;
}
// NOLINTEND(readability-identifier-naming)

namespace spillway::cuda {
inline void check(cudaError_t, std::string_view) {}  // backend/cuda/check.h
}  // namespace spillway::cuda
