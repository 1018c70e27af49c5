#include "config/config.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "config/spelled.h"

namespace spillway::config {

Config::Config() = default;
Config::Config(const Config&) = default;
Config::Config(Config&&) noexcept = default;
Config& Config::operator=(const Config&) = default;
Config& Config::operator=(Config&&) noexcept = default;
Config::~Config() = default;

Spelled::Spelled() = default;
Spelled::Spelled(const Spelled&) = default;
Spelled::Spelled(Spelled&&) noexcept = default;
Spelled& Spelled::operator=(const Spelled&) = default;
Spelled& Spelled::operator=(Spelled&&) noexcept = default;
Spelled::~Spelled() = default;

int64_t StepCount::of(int64_t total_steps) const {
  return static_cast<int64_t>(is_share ? std::ceil(value * static_cast<double>(total_steps)) : value);
}

int64_t WarmupSteps::of(int64_t total_steps) const {
  int64_t steps = count.of(total_steps);
  if (is_axolotls && count.is_share) steps = static_cast<int64_t>(count.value * static_cast<double>(total_steps));
  steps = std::min(steps, max_steps.value_or(steps));
  return is_axolotls && steps == 1 ? 2 : steps;
}

int64_t Interval::steps(int64_t total_steps, int64_t steps_per_epoch) const {
  switch (kind) {
    case Kind::kNever:
    case Kind::kBest:
      return 0;
    case Kind::kSteps:
      return std::max<int64_t>(1, step_count.of(total_steps));
    case Kind::kPerEpoch:
      break;
  }
  return std::max<int64_t>(1, div_ceil(steps_per_epoch, per_epoch));
}

}  // namespace spillway::config
