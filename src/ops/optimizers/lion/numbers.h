// The numbers of one Lion step, for the kernels of every device.
#pragma once

#include "graph/attributes.h"

namespace spillway::ops {

struct LionNumbers {
  float learning_rate, weight_decay, beta1, one_minus_beta1, beta2, one_minus_beta2;
};

// Returns the numbers without the learning rate, which the kernel reads.
inline LionNumbers lion_numbers(const Attributes& attributes) {
  const double beta1 = attributes.real("beta1"), beta2 = attributes.real("beta2");
  return {.weight_decay = static_cast<float>(attributes.real("weight_decay")),
          .beta1 = static_cast<float>(beta1),
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .beta2 = static_cast<float>(beta2),
          .one_minus_beta2 = static_cast<float>(1 - beta2)};
}

}  // namespace spillway::ops
