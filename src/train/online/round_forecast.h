// What a round of completions will take, for those who read the plan.
#pragma once

#include "train/job.h"

namespace spillway::train {

// With completions that are all as long as they may be, and the longest prompts. REQUIRES: the job is online, and its
// generation is planned.
[[nodiscard]] PlanContext::Generation forecast_round(const Job& job, const PlannedJob& planned);

}  // namespace spillway::train
