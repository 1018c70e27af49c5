#include "job/forward_groups.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "job/order_choice.h"

namespace spillway::train {
namespace {

double computing_seconds(const Plan& plan) { return nth(plan.simulation.lanes, Lane::kCompute).busy_seconds; }

// Returns the least power of two of micro-batches whose arithmetic takes as long as what one run brings to the device.
int64_t hiding_count(const Plan& plan, int64_t most) {
  double moving = 0;
  for (const Lane lane : {Lane::kHostToDevice, Lane::kDiskRead})
    moving = std::max(moving, nth(plan.simulation.lanes, lane).busy_seconds);
  int64_t count = 1;
  while (count < most && static_cast<double>(count) * computing_seconds(plan) < moving) count *= 2;
  return std::min(count, most);
}

}  // namespace

void plan_in_group(const PlanningInputs& in, const PlannedJob& planned, JobProgram& program) {
  program.plan = plan_beside(in, planned, program.graph);
  const double alone = program.plan.simulation.micro_step_seconds;
  const int64_t most = in.job.config.batches.forward_group;
  if (most == 1 || !program.plan.fits || alone <= kWorthOrder * computing_seconds(program.plan)) return;
  const auto fits = [&](const Plan& plan) {
    return plan.fits && std::all_of(kEachBudgetedTier.begin(), kEachBudgetedTier.end(), [&](Tier tier) {
             const int64_t taken = std::max(nth(planned.plan.peaks, tier).bytes, nth(program.plan.peaks, tier).bytes);
             return nth(plan.peaks, tier).bytes <= in.budget.of(tier).value_or(taken);
           });
  };
  for (int64_t count = hiding_count(program.plan, most); count > 1; count /= 2) {
    JobProgram together = program;
    repeat(together, count);
    together.plan = plan_beside(in, planned, together.graph);
    if (!fits(together.plan)) continue;
    if (kWorthOrder * together.plan.simulation.micro_step_seconds <= static_cast<double>(count) * alone)
      program = std::move(together);
    return;
  }
}

}  // namespace spillway::train
