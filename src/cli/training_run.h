// One run of a planned job, from loading the weights to the report.
#pragma once

#include "backend/device.h"
#include "config/load.h"
#include "job/planned_job.h"
#include "job/training_data.h"
#include "plan/machine.h"
#include "report/progress.h"
#include "saved/run_start.h"

namespace spillway {

// What a run is made of. All is borrowed.
struct RunInputs {
  const train::Job& job;
  const train::PlannedJob& planned;
  train::TrainingData& data;
  const config::ConfigSource& source;
  const Machine& machine;
  Device& device;
  Progress& progress;
};

// Trains what `source` says, and leaves in the job's output_dir, which the caller holds, what docs/report.md lists.
// What the run found out about the machine goes to the machine's cache. Returns the exit status: done, or interrupted.
// Throws what training throws, and Interrupted before the first step; what was saved until then stays.
[[nodiscard]] int run_training(const RunInputs& inputs, train::RunStart start);

}  // namespace spillway
