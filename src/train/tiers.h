// The lower tiers of a planned job: the scratch files of the disk tier, and the weights that stay in the user's files.
#pragma once

#include <memory>

#include "io/scratch.h"
#include "runtime/executor.h"
#include "train/job.h"

namespace spillway::train {

class JobTiers {
 public:
  // Reserves the scratch files in full. Throws InputError where a disk has too little room. `device` is borrowed.
  JobTiers(const Job& job, const PlannedJob& planned, Device& device = cpu_device());

  // Good while this lives.
  [[nodiscard]] const ExecutorOptions& options() const { return options_; }

 private:
  std::unique_ptr<Scratch> scratch_;
  ExecutorOptions options_;
};

}  // namespace spillway::train
