// The operands of the kernels of mean_squared_error and of its gradient.
#pragma once

#include <cstddef>

namespace spillway::ops {

// The inputs of both; the gradient has dy, f32 [1], last; if it is absent, it is one.
namespace mean_squared_error_op {
enum Input : int { kPrediction, kTarget, kWeights, kSeqOffsets, kDy };
}

}  // namespace spillway::ops
