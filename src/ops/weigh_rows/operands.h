// The operands of weigh_rows and of the gradient of its weights.
#pragma once

namespace spillway::ops::weigh_rows_op {

// The inputs of weigh_rows; those behind kWeights may be absent, and kInverse is for the gradient alone.
enum Input : int { kRows, kWeights, kOrder, kInverse };
// The inputs of the gradient of the weights behind kRows; the last may be absent.
enum GradInput : int { kDy = 1, kPlaces };

}  // namespace spillway::ops::weigh_rows_op
