// For functions that kernels of the CPU and of a GPU call.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SPILLWAY_EITHER_SIDE __host__ __device__
#else
#define SPILLWAY_EITHER_SIDE
#endif

namespace spillway::ops {

// Multiplied out, since the pow of two libraries differs in the last bit. REQUIRES: exponent >= 0.
constexpr double power(double base, int32_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= base;
    base *= base;
  }
  return result;
}

}  // namespace spillway::ops
