// Measures how long a job's operations take on this computer, for its plan.
#pragma once

#include <cstdint>
#include <functional>

#include "job/job.h"
#include "plan/machine.h"

namespace spillway::train {

// Measures the operations of the job whose times are missing, or were measured on a busier machine, and adds them to
// `machine` and its cache on disk; for a job that generates its completions, those of all programs of a round. Takes a
// few seconds the first time and says so on standard error; nothing afterwards. Uses no more memory than the job's
// budget. `training` is the job's graph; `on_progress` is as in OperationMeasureOptions.
void measure_job(const Job& job, const TrainingGraph& training, Machine& machine, Device& device = cpu_device(),
                 std::function<void(int64_t done, int64_t of)> on_progress = {});

}  // namespace spillway::train
