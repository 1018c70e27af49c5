// The numbers of one Adagrad step, for the kernels of every device.
#pragma once

#include <cstdint>

#include "graph/attributes.h"
#include "ops/optimizers/either_side.h"

namespace spillway::ops {

struct alignas(16) AdagradNumbers {
  float rate, eps, weight_decay;
};

// The options of a config, for either side.
struct AdagradConstants {
  double lr_decay, eps, weight_decay;
};
inline AdagradConstants adagrad_constants(const Attributes& attributes) {
  return {.lr_decay = attributes.real("lr_decay"),
          .eps = attributes.real("eps"),
          .weight_decay = attributes.real("weight_decay")};
}

SPILLWAY_EITHER_SIDE inline AdagradNumbers adagrad_numbers(const AdagradConstants& c, float learning_rate,
                                                           int32_t step) {
  return {.rate = static_cast<float>(learning_rate / (1 + (step - 1) * c.lr_decay)),
          .eps = static_cast<float>(c.eps),
          .weight_decay = static_cast<float>(c.weight_decay)};
}

}  // namespace spillway::ops
