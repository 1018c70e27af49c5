// The numbers of one Adafactor step, for the kernels of every device.
#pragma once

#include "graph/attributes.h"
#include "ops/optimizers/whole_matrix.h"

namespace spillway::ops {

struct alignas(16) AdafactorNumbers {
  MeanWeights squares;
  float eps, decay;
};

// The options of a config, for either side.
struct AdafactorConstants {
  double decay_rate, eps, clip_threshold, weight_decay;
};
inline AdafactorConstants adafactor_constants(const Attributes& attributes) {
  return {.decay_rate = attributes.real("decay_rate"),
          .eps = attributes.real("eps"),
          .clip_threshold = attributes.real("clip_threshold"),
          .weight_decay = attributes.real("weight_decay")};
}

SPILLWAY_EITHER_SIDE inline AdafactorNumbers adafactor_numbers(const AdafactorConstants& c, float learning_rate,
                                                               int32_t step) {
  const double one_minus_beta = real_power(step, c.decay_rate);
  return {.squares = {static_cast<float>(1 - one_minus_beta), static_cast<float>(one_minus_beta)},
          .eps = static_cast<float>(c.eps),
          .decay = static_cast<float>(1 - static_cast<double>(learning_rate) * c.weight_decay)};
}

}  // namespace spillway::ops
