// The state of the step, for the kernels of every device.
//
// Step t moves x to its mean with z by a share c = w / (the sum of w so far), w = t^r rate_max^power, with the largest
// rate until then. It keeps 1 / c, which follows from the one before by a ratio of two w's and 1: steps of one rate are
// counted exactly, where a sum of small w's would round.
#pragma once

#include <cmath>
#include <cstdint>

#include "graph/attributes.h"
#include "ops/optimizers/either_side.h"

namespace spillway::ops {

// The inputs of schedule_free_step, which computes the next of these.
namespace schedule_free_step_op {
enum Input : int { kState, kLearningRate, kStep };
}

// The state of the step.
struct AverageState {
  float steps = 0;     // 1 / c; 0 as long as all w are 0, and so is c
  float rate_max = 0;  // of all steps so far
};

struct AverageConstants {
  double r, weight_lr_power;
};
inline AverageConstants average_constants(const Attributes& attributes) {
  return {.r = attributes.real("r"), .weight_lr_power = attributes.real("weight_lr_power")};
}

SPILLWAY_EITHER_SIDE inline AverageState next_average(const AverageConstants& c, const AverageState& last,
                                                      float learning_rate, int32_t step) {
  const float rate_max = learning_rate > last.rate_max ? learning_rate : last.rate_max;
  const bool has_weight = rate_max > 0 || c.weight_lr_power == 0;
  if (!has_weight) return {.steps = 0, .rate_max = rate_max};
  double before = 0;  // the sum before, in units of this step's w
  if (last.steps > 0) {
    before = last.steps;
    if (c.r != 0) before *= real_power((step - 1.0) / step, c.r);
    if (last.rate_max < rate_max && c.weight_lr_power != 0)
      before *= real_power(static_cast<double>(last.rate_max) / rate_max, c.weight_lr_power);
  }
  return {.steps = static_cast<float>(before + 1), .rate_max = rate_max};
}

}  // namespace spillway::ops
