// The numbers of one step, for the kernels of every device.
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

// The numbers that every thread of a GPU reads, 16 bytes at a time.
struct alignas(16) ScheduleFreeNumbers {
  float beta2, one_minus_beta2, inverse_root_correction, eps, weight_decay;
  float share, rest;     // c, 1 - c
  float y_rate, z_rate;  // the factors of the direction in y and z - y
};

// The options of a config, for either side.
struct ScheduleFreeConstants {
  double beta1, beta2, eps, weight_decay;
};
inline ScheduleFreeConstants schedule_free_constants(const Attributes& attributes) {
  return {.beta1 = attributes.real("beta1"),
          .beta2 = attributes.real("beta2"),
          .eps = attributes.real("eps"),
          .weight_decay = attributes.real("weight_decay")};
}

SPILLWAY_EITHER_SIDE inline ScheduleFreeNumbers schedule_free_numbers(const ScheduleFreeConstants& o,
                                                                      const AverageState& average, float learning_rate,
                                                                      int32_t step) {
  const double share = average.steps > 0 ? 1.0 / average.steps : 0.0, rest = 1 - share, rate = learning_rate;
  return {.beta2 = static_cast<float>(o.beta2),
          .one_minus_beta2 = static_cast<float>(1 - o.beta2),
          .inverse_root_correction = static_cast<float>(1 / std::sqrt(1 - power(o.beta2, step))),
          .eps = static_cast<float>(o.eps),
          .weight_decay = static_cast<float>(o.weight_decay),
          .share = static_cast<float>(share),
          .rest = static_cast<float>(rest),
          .y_rate = static_cast<float>(rate * (1 - o.beta1 * rest)),
          .z_rate = static_cast<float>(rate * o.beta1 * rest)};
}

}  // namespace spillway::ops
