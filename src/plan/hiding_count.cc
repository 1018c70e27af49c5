#include "plan/hiding_count.h"

#include <algorithm>

#include "base/index.h"

namespace spillway {
namespace {

double computing_seconds(const Plan& plan) { return nth(plan.simulation.lanes, Lane::kCompute).busy_seconds; }

}  // namespace

bool waits_for_transfers(const Plan& plan) {
  return plan.simulation.micro_step_seconds > kWorthOrder * computing_seconds(plan);
}

int64_t hiding_count(const Plan& plan, int64_t most) {
  double moving = 0;
  for (const Lane lane : {Lane::kHostToDevice, Lane::kDiskRead, Lane::kPeer})
    moving = std::max(moving, nth(plan.simulation.lanes, lane).busy_seconds);
  int64_t count = 1;
  while (count < most && static_cast<double>(count) * computing_seconds(plan) < moving) count *= 2;
  return std::min(count, most);
}

bool gains_together(const Plan& together, const Plan& alone, int64_t count) {
  return kWorthOrder * together.simulation.micro_step_seconds <=
         static_cast<double>(count) * alone.simulation.micro_step_seconds;
}

}  // namespace spillway
