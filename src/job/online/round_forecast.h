// What a round of completions will take, for those who read the plan.
#pragma once

#include "infer/generation/choosing_cost.h"
#include "job/planned_job.h"

namespace spillway::train {

// What the host chooses behind each run of the decoding program, with so many sequences at once; nothing where the
// program does. REQUIRES: the job is online.
[[nodiscard]] std::optional<infer::ChoosingWork> choosing_work(const Job& job, int64_t sequences);

// With completions that are all as long as they may be, and the longest prompts. REQUIRES: the job is online, and its
// programs are planned.
[[nodiscard]] PlanContext::Generation forecast_round(const Job& job, const PlannedJob& planned, const Machine& machine);

}  // namespace spillway::train
