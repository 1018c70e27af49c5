// The numbers of one step of AdamW with moments in 8 bits, for the kernels of every device.
#pragma once

#include <cmath>

#include "ops/optimizers/adamw/numbers.h"

namespace spillway::ops {

// The numbers that every thread of a GPU reads, 16 bytes at a time.
struct alignas(16) Adamw8bitNumbers {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, eps, decay;
};

// Returns the numbers for c1 = 1 - beta1^t and c2 = sqrt(1 - beta2^t): p += step_size * m / (sqrt(v) + eps), with eps
// times c2, then p *= decay.
SPILLWAY_EITHER_SIDE inline Adamw8bitNumbers adamw_8bit_numbers(const AdamwConstants& o, float learning_rate,
                                                                int32_t step) {
  const double rate = learning_rate, c1 = 1 - power(o.beta1, step), c2 = std::sqrt(1 - power(o.beta2, step));
  return {.beta1 = static_cast<float>(o.beta1),
          .one_minus_beta1 = static_cast<float>(1 - o.beta1),
          .beta2 = static_cast<float>(o.beta2),
          .one_minus_beta2 = static_cast<float>(1 - o.beta2),
          .step_size = static_cast<float>(-rate * c2 / c1),
          .eps = static_cast<float>(c2 * o.eps),
          .decay = static_cast<float>(1 - rate * o.weight_decay)};
}

}  // namespace spillway::ops
