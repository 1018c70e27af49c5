// What a job's operations take on this computer, for its plan.
#pragma once

#include "plan/machine.h"
#include "train/job.h"

namespace spillway::train {

// Adds to `machine`, and to its cache on disk, the measured times of the job's operations that are not there yet. Takes
// some seconds the first time and nothing afterwards; a sentence on standard error says so. Uses no more memory than
// the job may. `training` is the job's graph.
void measure_job(const Job& job, const TrainingGraph& training, Machine& machine, Device& device = cpu_device());

}  // namespace spillway::train
