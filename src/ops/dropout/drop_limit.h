// Decides which random numbers drop an element: the same on the CPU and on GPUs.
#pragma once

#include <cmath>
#include <cstdint>

namespace spillway::ops {

// Returns the limit for which bits >> 8 < limit is the same as uniform_float(bits) < p, in integers.
[[nodiscard]] inline uint32_t drop_limit(double p) {
  return static_cast<uint32_t>(std::ceil(double{static_cast<float>(p)} * 0x1p24));
}

}  // namespace spillway::ops
