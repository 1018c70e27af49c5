// The operands of add_expert_bias and of the gradient of its bias.
#pragma once

namespace spillway::ops::add_expert_bias_op {

enum Input : int { kRows, kBias, kOffsets };
// The inputs of the gradient of the bias.
enum GradInput : int { kDy, kGradOffsets };

}  // namespace spillway::ops::add_expert_bias_op
