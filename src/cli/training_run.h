// One run of a planned job, from loading the weights to the report.
#pragma once

#include "backend/device.h"
#include "config/load.h"
#include "job/planned_job.h"
#include "job/training_data.h"
#include "plan/machine.h"
#include "report/progress.h"
#include "saved/run_start.h"
#include "train/ranks.h"

namespace spillway {

// The inputs of a run. All is borrowed.
struct RunInputs {
  const train::Job& job;
  train::PlannedJob& planned;  // of drawn layers, it is always that of those that are trained
  train::TrainingData& data;
  const config::LoadedConfig& config;
  const Machine& machine;
  Device& device;
  Progress& progress;
  train::Ranks& ranks;
  Peers* device_peers;  // of ranks whose devices have memory of their own; else null
  bool prints_metrics;  // on standard output, beside metrics.jsonl
};

// Trains what the config says, and leaves the files that docs/report.md lists in the job's output_dir, which the
// caller has locked. With several ranks all call it together, and rank 0 writes the files. Updates the machine's cache
// with the measurements of the run. Returns the exit status: done, or interrupted. Throws the errors of training, and
// Interrupted before the first step; checkpoints that were saved stay.
[[nodiscard]] int run_training(const RunInputs& inputs, train::RunStart start);

}  // namespace spillway
