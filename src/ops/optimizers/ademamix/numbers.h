// The numbers of one AdEMAMix step, for the kernels of every device.
#pragma once

#include <cmath>

#include "graph/attributes.h"
#include "ops/optimizers/either_side.h"

namespace spillway::ops {

// The numbers that every thread of a GPU reads, 16 bytes at a time.
struct alignas(16) AdemamixNumbers {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, beta3, one_minus_beta3;
  float inverse_correction1, inverse_root_correction2, alpha, eps, learning_rate, decay;
};

// The options of a config, for either side.
struct AdemamixConstants {
  double beta1, beta2, beta3, alpha, t_beta3, t_alpha, eps, weight_decay;
};
inline AdemamixConstants ademamix_constants(const Attributes& attributes) {
  return {.beta1 = attributes.real("beta1"),
          .beta2 = attributes.real("beta2"),
          .beta3 = attributes.real("beta3"),
          .alpha = attributes.real("alpha"),
          .t_beta3 = attributes.real("t_beta3"),
          .t_alpha = attributes.real("t_alpha"),
          .eps = attributes.real("eps"),
          .weight_decay = attributes.real("weight_decay")};
}

// Return the values of a step: alpha rises from 0 over t_alpha steps, beta3 from beta1 over t_beta3, by its half-life.
// If these are 0, the values are constant.
SPILLWAY_EITHER_SIDE inline double alpha_of_step(const AdemamixConstants& c, int32_t step) {
  return step < c.t_alpha ? step * c.alpha / c.t_alpha : c.alpha;
}
SPILLWAY_EITHER_SIDE inline double beta3_of_step(const AdemamixConstants& c, int32_t step) {
  if (!(step < c.t_beta3) || !(c.beta1 > 0) || !(c.beta3 > c.beta1)) return c.beta3;
  const double part = step / c.t_beta3, log1 = logarithm(c.beta1), log3 = logarithm(c.beta3);
  return exponential(log1 * log3 / ((1 - part) * log3 + part * log1));
}

// Returns the numbers of p -= learning_rate * (m / c1 + alpha * slow) / (sqrt(v) / c2 + eps), with c1 = 1 - beta1^t, c2
// = sqrt(1 - beta2^t).
SPILLWAY_EITHER_SIDE inline AdemamixNumbers ademamix_numbers(const AdemamixConstants& c, float learning_rate,
                                                             int32_t step) {
  const double beta3 = beta3_of_step(c, step);
  return {.beta1 = static_cast<float>(c.beta1),
          .one_minus_beta1 = static_cast<float>(1 - c.beta1),
          .beta2 = static_cast<float>(c.beta2),
          .one_minus_beta2 = static_cast<float>(1 - c.beta2),
          .beta3 = static_cast<float>(beta3),
          .one_minus_beta3 = static_cast<float>(1 - beta3),
          .inverse_correction1 = static_cast<float>(1 / (1 - power(c.beta1, step))),
          .inverse_root_correction2 = static_cast<float>(1 / std::sqrt(1 - power(c.beta2, step))),
          .alpha = static_cast<float>(alpha_of_step(c, step)),
          .eps = static_cast<float>(c.eps),
          .learning_rate = learning_rate,
          .decay = static_cast<float>(1 - static_cast<double>(learning_rate) * c.weight_decay)};
}

}  // namespace spillway::ops
