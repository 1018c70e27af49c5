// The numbers of one CAME step, for the kernels of every device.
#pragma once

#include "graph/attributes.h"
#include "ops/optimizers/whole_matrix.h"

namespace spillway::ops {

struct alignas(16) CameNumbers {
  MeanWeights update, squares, residuals;
  float eps, eps2, decay;
};

// The options of a config, for either side.
struct CameConstants {
  double beta1, beta2, beta3, eps, eps2, clip_threshold, weight_decay;
};
inline CameConstants came_constants(const Attributes& attributes) {
  return {.beta1 = attributes.real("beta1"),
          .beta2 = attributes.real("beta2"),
          .beta3 = attributes.real("beta3"),
          .eps = attributes.real("eps"),
          .eps2 = attributes.real("eps2"),
          .clip_threshold = attributes.real("clip_threshold"),
          .weight_decay = attributes.real("weight_decay")};
}

SPILLWAY_EITHER_SIDE inline CameNumbers came_numbers(const CameConstants& c, float learning_rate, int32_t) {
  return {.update = mean_weights(c.beta1),
          .squares = mean_weights(c.beta2),
          .residuals = mean_weights(c.beta3),
          .eps = static_cast<float>(c.eps),
          .eps2 = static_cast<float>(c.eps2),
          .decay = static_cast<float>(1 - static_cast<double>(learning_rate) * c.weight_decay)};
}

}  // namespace spillway::ops
