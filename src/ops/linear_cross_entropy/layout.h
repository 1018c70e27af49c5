// The workspace of linear_cross_entropy on the CPU.
#pragma once

#include "ops/logits/chunks.h"

namespace spillway::ops {

// Returns the number of gradients among the outputs: loss, correct, and the wanted gradients, of x and then of w.
[[nodiscard]] constexpr int gradient_count(size_t outputs) { return static_cast<int>(outputs) - 2; }

struct LossWorkspace : LogitWorkspace {
  int64_t losses, correct;

  LossWorkspace(const LogitShape& shape, int threads)
      : LogitWorkspace(shape, threads),
        losses(take(shape.tokens * int64_t{sizeof(float)})),       // f32 [T]
        correct(take(shape.tokens * int64_t{sizeof(int32_t)})) {}  // i32 [T]: 1 if the label is the likeliest
};

}  // namespace spillway::ops
