#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace spillway::train {

double LrSchedule::at(int64_t done) const {
  if (kind == config::LrScheduler::kConstant) return peak;
  const auto step = static_cast<double>(done), warmup = static_cast<double>(warmup_steps);
  if (done < warmup_steps) return peak * step / std::max(1.0, warmup);
  if (kind == config::LrScheduler::kConstantWithWarmup) return peak;
  const double progress = (step - warmup) / std::max(1.0, static_cast<double>(total_steps) - warmup);
  if (kind == config::LrScheduler::kLinear) return peak * std::max(0.0, 1 - progress);
  return peak * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

}  // namespace spillway::train
