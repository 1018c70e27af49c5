#include "backend/cpu/matmul_kernels.h"

#include <array>

namespace spillway::cpu {

extern const MatmulKernels kPortableKernels, kAvx2Kernels, kAvx512Kernels, kAvx512Bf16Kernels, kAmxBf16Kernels;
// Whether the CPU has tiles of bf16 and the system lets this process use them.
bool enable_amx_bf16();

namespace {

struct Supported {
  std::array<const MatmulKernels*, 5> kernels{};
  size_t count = 0;
};

Supported find_supported() {
  Supported found;
  found.kernels[found.count++] = &kPortableKernels;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.kernels[found.count++] = &kAvx2Kernels;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    found.kernels[found.count++] = &kAvx512Kernels;
    if (__builtin_cpu_supports("avx512bf16")) {
      found.kernels[found.count++] = &kAvx512Bf16Kernels;
      if (enable_amx_bf16()) found.kernels[found.count++] = &kAmxBf16Kernels;
    }
  }
#endif
  return found;
}

}  // namespace

std::span<const MatmulKernels* const> supported_matmul_kernels() {
  static const Supported kSupported = find_supported();
  return {kSupported.kernels.data(), kSupported.count};
}

}  // namespace spillway::cpu
