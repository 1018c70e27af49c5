// The learning rate of each step of a run.
#pragma once

#include <cstdint>

#include "config/config.h"
#include "schedules/schedule.h"

namespace spillway::train {

class LearningRate {
 public:
  LearningRate(const config::ScheduleSettings& settings, int64_t total_steps);

  // Returns the learning rate of a step, counted from 0.
  [[nodiscard]] double of(int64_t step) const { return schedules::rate_of(schedule_, span_, options_, step); }

 private:
  const schedules::ScheduleDef& schedule_;
  schedules::ScheduleOptions options_;
  schedules::ScheduleSpan span_;
};

}  // namespace spillway::train
