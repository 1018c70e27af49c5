// The operands of linear_log_prob and of its gradient, by name.
#pragma once

#include <cstddef>

namespace spillway::ops {

// The inputs of both, and then those of the gradient alone; one of the two cotangents may be absent.
namespace linear_log_prob_op {
enum Input : int { kX, kW, kLabels, kLogSum, kEntropy, kLogProbCotangent, kEntropyCotangent };
// The outputs of linear_log_prob. The third is saved for the gradient: the logarithm of the sum of exponentials. Those
// behind it have no gradient. The last is there if the attribute `top` is not 0.
enum Output : int {
  kLogProbOut,
  kEntropyOut,
  kLogSumOut,
  kMeanLogitOut,
  kIsLikeliestOut,
  kLogSquareSumOut,
  kTopEntropyOut
};
constexpr size_t kLogProbOutputs = 7;
}  // namespace linear_log_prob_op

}  // namespace spillway::ops
