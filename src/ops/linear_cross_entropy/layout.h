// The operands of linear_cross_entropy, and its workspace on the CPU.
#pragma once

#include <string_view>

#include "ops/logits/chunks.h"

namespace spillway::ops {

namespace linear_cross_entropy_op {
enum Input : int { kX, kW, kLabels, kScale };
// The gradients are those that are wanted: none, of x, or of both.
enum Output : int { kLoss, kCorrect, kDx, kDw };
}  // namespace linear_cross_entropy_op

inline constexpr std::string_view kLabelSmoothing = "label_smoothing";  // an attribute; absent: 0

// The terms that are added to a logit's gradient before it is scaled: one for all logits, and one more for the label's.
struct SmoothedTarget {
  float of_all = 0, of_label = -1;

  SmoothedTarget(double smoothing, int64_t vocabulary)
      : of_all(static_cast<float>(-smoothing / static_cast<double>(vocabulary))),
        of_label(static_cast<float>(smoothing - 1)) {}
};

// Returns the number of gradients among the outputs.
[[nodiscard]] constexpr int gradient_count(size_t outputs) {
  return static_cast<int>(outputs) - linear_cross_entropy_op::kDx;
}

struct LossWorkspace : LogitWorkspace {
  int64_t losses, correct;

  LossWorkspace(const LogitShape& shape, int threads)
      : LogitWorkspace(shape, threads),
        losses(take(shape.tokens * int64_t{sizeof(float)})),       // f32 [T]
        correct(take(shape.tokens * int64_t{sizeof(int32_t)})) {}  // i32 [T]: 1 if the label is the likeliest
};

}  // namespace spillway::ops
