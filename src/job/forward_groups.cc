#include "job/forward_groups.h"

#include <algorithm>
#include <utility>

#include "base/index.h"
#include "plan/hiding_count.h"

namespace spillway::train {

bool fits_instead(const PlanningInputs& in, const PlannedJob& planned, const Plan& of_one, const Plan& plan) {
  return plan.fits && std::all_of(kEachBudgetedTier.begin(), kEachBudgetedTier.end(), [&](Tier tier) {
           const int64_t taken = std::max(nth(planned.plan.peaks, tier).bytes, nth(of_one.peaks, tier).bytes);
           return nth(plan.peaks, tier).bytes <= in.budget.of(tier).value_or(taken);
         });
}

void plan_in_group(const PlanningInputs& in, const PlannedJob& planned, JobProgram& program) {
  program.plan = plan_beside(in, planned, program.graph);
  const int64_t most = in.job.config.batches.forward_group;
  if (most == 1 || !program.plan.fits || !waits_for_transfers(program.plan)) return;
  for (int64_t count = hiding_count(program.plan, most); count > 1; count /= 2) {
    JobProgram together = program;
    repeat(together, count);
    together.plan = plan_beside(in, planned, together.graph);
    if (!fits_instead(in, planned, program.plan, together.plan)) continue;
    if (gains_together(together.plan, program.plan, count)) program = std::move(together);
    return;
  }
}

}  // namespace spillway::train
