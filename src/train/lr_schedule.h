// The learning rate of each step, as transformers' schedules give it.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace spillway::train {

struct LrSchedule {
  config::LrScheduler kind = config::LrScheduler::kConstant;
  double peak = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;

  // Of the step with `done` steps before it: 0 at the first step of a warmup. Linear falls to 0 and cosine follows half
  // a wave to 0 over what comes after the warmup; constant has no warmup, constant_with_warmup has one.
  [[nodiscard]] double at(int64_t done) const;
};

}  // namespace spillway::train
