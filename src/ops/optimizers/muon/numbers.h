// The numbers of one Muon step, for the kernels of every device.
#pragma once

#include <cmath>

#include "graph/attributes.h"
#include "ops/optimizers/either_side.h"

namespace spillway::ops {

// The inputs of muon_momentum; clip may be absent.
namespace muon_momentum_op {
enum Input : int { kGradient, kClip, kBuffer };
}

struct MuonMeans {
  float one_minus_momentum;
  float of_gradient;  // in the direction, beside the mean: Nesterov's step
};
inline MuonMeans muon_means(const Attributes& attributes) {
  const auto next = static_cast<float>(1 - attributes.real("momentum"));
  return {next, attributes.real("nesterov") != 0 ? next : 0};
}

// Returns the divisor of a matrix.
SPILLWAY_EITHER_SIDE inline float muon_norm(float squared_norm) {
  const float norm = std::sqrt(squared_norm);
  return norm > 1e-7F ? norm : 1e-7F;
}

}  // namespace spillway::ops
