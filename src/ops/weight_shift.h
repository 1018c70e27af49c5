// The number that is added to a norm's weights, for both kinds of kernels.
#pragma once

#include "ops/real_or.h"

namespace spillway::ops {

// Returns the shift. The default is -0, which changes no bit of any number that it is added to; 0 would change those of
// -0.
[[nodiscard]] inline float weight_shift_of(const Attributes& attributes) {
  return static_cast<float>(real_or(attributes, "weight_shift", -0.0));
}

}  // namespace spillway::ops
