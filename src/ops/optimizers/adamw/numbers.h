// The numbers of one AdamW step, for the kernels of every device.
#pragma once

#include <cmath>

#include "graph/attributes.h"
#include "ops/optimizers/either_side.h"

namespace spillway::ops {

// The numbers that every thread of a GPU reads, 16 bytes at a time.
struct alignas(16) AdamwNumbers {
  float beta2, one_minus_beta1, one_minus_beta2, decay, minus_step_size, inverse_root_correction, eps;
};

// The options of AdamW in a config, for either side.
struct AdamwConstants {
  double beta1, beta2, eps, weight_decay;
};
inline AdamwConstants adamw_constants(const Attributes& attributes) {
  return {.beta1 = attributes.real("beta1"),
          .beta2 = attributes.real("beta2"),
          .eps = attributes.real("eps"),
          .weight_decay = attributes.real("weight_decay")};
}

SPILLWAY_EITHER_SIDE inline AdamwNumbers adamw_numbers(const AdamwConstants& o, float learning_rate, int32_t step) {
  const double rate = learning_rate, correction1 = 1 - power(o.beta1, step), correction2 = 1 - power(o.beta2, step);
  return {.beta2 = static_cast<float>(o.beta2),
          .one_minus_beta1 = static_cast<float>(1 - o.beta1),
          .one_minus_beta2 = static_cast<float>(1 - o.beta2),
          .decay = static_cast<float>(1 - rate * o.weight_decay),
          .minus_step_size = static_cast<float>(-rate / correction1),
          .inverse_root_correction = static_cast<float>(1 / std::sqrt(correction2)),
          .eps = static_cast<float>(o.eps)};
}

}  // namespace spillway::ops
