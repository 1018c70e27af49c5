// The lower tiers of a planned job: the scratch files of the disk tier, and the weights that stay in the user's files.
#pragma once

#include <memory>

#include "io/scratch.h"
#include "job/planned_job.h"
#include "runtime/executor.h"

namespace spillway::train {

// Returns this computer, with the job's disk paths as its disk tier, as one of `ranks` processes sees it that share its
// memory and disks. Throws InputError for budgets that it cannot meet.
[[nodiscard]] Machine machine_of(const config::Config& config, Device& device, int ranks = 1);

// Predicts the peak resident set of this process at the end of the job: its current size or its peak so far, plus the
// memory of the tiers and the rest of the program, all of which will be touched. Call it before JobTiers and the
// session take that memory.
[[nodiscard]] int64_t predicted_rss_bytes(const Job& job, const PlannedJob& planned, const Machine& machine);

class JobTiers {
 public:
  // Reserves the scratch files in full. Throws InputError if a disk has too little room. Borrows `device`.
  JobTiers(const Job& job, const PlannedJob& planned, Device& device = cpu_device());

  // Valid as long as this object.
  [[nodiscard]] const ExecutorOptions& options() const { return options_; }

 private:
  std::unique_ptr<Scratch> scratch_;
  ExecutorOptions options_;
};

}  // namespace spillway::train
