// The numbers of one RMSprop step, for the kernels of every device.
#pragma once

#include "graph/attributes.h"

namespace spillway::ops {

struct RmspropNumbers {
  float learning_rate, alpha, one_minus_alpha, eps, momentum, weight_decay;
};

// Returns the numbers without the learning rate, which the kernel reads.
inline RmspropNumbers rmsprop_numbers(const Attributes& attributes) {
  const double alpha = attributes.real("alpha");
  return {.alpha = static_cast<float>(alpha),
          .one_minus_alpha = static_cast<float>(1 - alpha),
          .eps = static_cast<float>(attributes.real("eps")),
          .momentum = static_cast<float>(attributes.real("momentum")),
          .weight_decay = static_cast<float>(attributes.real("weight_decay"))};
}

}  // namespace spillway::ops
