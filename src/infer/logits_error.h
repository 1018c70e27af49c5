// The error of a model that states nothing.
#pragma once

#include "base/error.h"

namespace spillway::infer {

// Answers and scores of logits that are no numbers would look like others.
[[nodiscard]] inline InputError logits_are_nan() {
  return input_error("model", "expected logits that are numbers, got NaN; {}",
                     "look at its weights, or compute in f32 where they are too large for bf16");
}

}  // namespace spillway::infer
