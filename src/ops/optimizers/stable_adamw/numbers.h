// The numbers of one StableAdamW step, for the kernels of every device.
#pragma once

#include "graph/attributes.h"
#include "ops/optimizers/whole_matrix.h"

namespace spillway::ops {

struct alignas(16) StableAdamwNumbers {
  MeanWeights squares;
  float one_minus_beta1, eps, least_square;
};

// The options of a config, for either side.
struct StableAdamwConstants {
  double beta1, beta2, eps, weight_decay;
};
inline StableAdamwConstants stable_adamw_constants(const Attributes& attributes) {
  return {.beta1 = attributes.real("beta1"),
          .beta2 = attributes.real("beta2"),
          .eps = attributes.real("eps"),
          .weight_decay = attributes.real("weight_decay")};
}

// Returns the weight of a gradient in a mean that is debiased as it is taken: 1 in the first step.
SPILLWAY_EITHER_SIDE inline double debiased(double beta, int32_t step) { return (1 - beta) / (1 - power(beta, step)); }

SPILLWAY_EITHER_SIDE inline StableAdamwNumbers stable_adamw_numbers(const StableAdamwConstants& c, float,
                                                                    int32_t step) {
  const double next = debiased(c.beta2, step);
  return {.squares = {static_cast<float>(1 - next), static_cast<float>(next)},
          .one_minus_beta1 = static_cast<float>(debiased(c.beta1, step)),
          .eps = static_cast<float>(c.eps),
          .least_square = static_cast<float>(c.eps * c.eps)};
}

// The rate and decay of a weight, from the sum over its elements of the squared gradient over the second moment.
struct StableAdamwRate {
  float rate, decay;
};
SPILLWAY_EITHER_SIDE inline StableAdamwRate stable_adamw_rate(float learning_rate, double ratios, int64_t elems,
                                                              double weight_decay) {
  const float rate = clipped_rate(learning_rate, ratios, elems, 1);
  return {rate, static_cast<float>(1 - static_cast<double>(rate) * weight_decay)};
}

}  // namespace spillway::ops
