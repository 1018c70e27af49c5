// The operands of scale_columns and of its gradient.
#pragma once

namespace spillway::ops::scale_columns_op {

enum Input : int { kX, kFactor, kBias, kAddend };
// The inputs of the gradient behind kX and kFactor; the addend is that of the factor's gradient.
enum GradInput : int { kDy = 2, kFactorAddend };

}  // namespace spillway::ops::scale_columns_op
