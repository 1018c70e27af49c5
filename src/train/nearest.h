// What a user could change so that a job which does not fit would.
#pragma once

#include <vector>

#include "train/job.h"

namespace spillway::train {

// At most three changes of the config, those that cost least first: leave the choice to the plan, recompute, state on
// disk where there is a disk budget, larger budgets where bytes are missing, fewer rows at a time with more
// accumulation (the same step), shorter sequences. Each was planned as the user would get it, and fits.
// REQUIRES: the job was made from its config, and `plan`, which is its plan, does not fit.
[[nodiscard]] std::vector<PlanContext::Change> nearest_changes(const Job& job, const Plan& plan,
                                                               const Machine& machine);

}  // namespace spillway::train
