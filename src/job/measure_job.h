// What a job's operations take on this computer, for its plan.
#pragma once

#include <cstdint>
#include <functional>

#include "job/job.h"
#include "plan/machine.h"

namespace spillway::train {

// Adds to `machine`, and to its cache on disk, the measured times of the job's operations that are not there yet, or
// were measured on a busier machine; of a job that generates what it is trained on, those of all programs of a round.
// Takes some seconds the first time and nothing afterwards; a sentence on standard error says so. Uses no more memory
// than the job may. `training` is the job's graph. `on_progress` as in
// OperationMeasureOptions.
void measure_job(const Job& job, const TrainingGraph& training, Machine& machine, Device& device = cpu_device(),
                 std::function<void(int64_t done, int64_t of)> on_progress = {});

}  // namespace spillway::train
