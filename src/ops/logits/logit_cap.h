// The cap of a model's logits (Gemma 2): l becomes cap * tanh(l / cap), before any temperature.
#pragma once

#include "ops/real_or.h"

namespace spillway::ops {

struct LogitCap {
  float cap;  // 0: none

  explicit LogitCap(const Attributes& attributes, std::string_view name = "logit_cap")
      : cap(static_cast<float>(real_or(attributes, name, 0))) {}
  // Returns the factor for a capped logit that gives its tanh; without a cap 0, which leaves slopes of 1 - tanh^2 at
  // exactly 1.
  [[nodiscard]] float inverse() const { return cap > 0 ? 1 / cap : 0.0f; }
};

}  // namespace spillway::ops
