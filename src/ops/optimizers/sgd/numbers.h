// The numbers of one step of SGD, for the kernels of every device.
#pragma once

#include <cstdint>

#include "graph/attributes.h"
#include "ops/optimizers/either_side.h"

namespace spillway::ops {

struct alignas(16) SgdNumbers {
  float learning_rate, momentum, weight_decay;
  float taken;  // the part of a gradient that the momentum takes: 1 - dampening, but all of the first
  bool nesterov;
};

// The options of a config, for either side.
struct SgdConstants {
  double momentum, dampening, weight_decay;
  bool nesterov;
};
inline SgdConstants sgd_constants(const Attributes& attributes) {
  return {.momentum = attributes.real("momentum"),
          .dampening = attributes.real("dampening"),
          .weight_decay = attributes.real("weight_decay"),
          .nesterov = attributes.real("nesterov") != 0};
}

SPILLWAY_EITHER_SIDE inline SgdNumbers sgd_numbers(const SgdConstants& c, float learning_rate, int32_t step) {
  return {.learning_rate = learning_rate,
          .momentum = static_cast<float>(c.momentum),
          .weight_decay = static_cast<float>(c.weight_decay),
          .taken = step == 1 || c.momentum == 0 ? 1.0F : static_cast<float>(1 - c.dampening),
          .nesterov = c.nesterov};
}

}  // namespace spillway::ops
