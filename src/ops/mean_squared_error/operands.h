// The operands of the kernels of mean_squared_error and of its gradient.
#pragma once

#include <cstddef>

namespace spillway::ops {

// Inputs of both; the gradient has dy, f32 [1], last, which may be absent: one.
namespace error_input {
enum : size_t { kPrediction, kTarget, kWeights, kSeqOffsets, kDy };
}

}  // namespace spillway::ops
