// The operands of linear_log_prob and of its gradient, by name.
#pragma once

#include <cstddef>

namespace spillway::ops {

// Inputs of both, and then of the gradient alone; of the two cotangents one may be absent.
enum LogProbInput : size_t { kX, kW, kLabels, kLogSum, kEntropy, kLogProbCotangent, kEntropyCotangent };
// Outputs of linear_log_prob. The last is saved for the gradient: the logarithm of the sum of exponentials.
enum LogProbOutput : size_t { kLogProbOut, kEntropyOut, kLogSumOut };

}  // namespace spillway::ops
