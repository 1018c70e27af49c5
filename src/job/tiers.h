// The lower tiers of a planned job: the scratch files of the disk tier, and the weights that stay in the user's files.
#pragma once

#include <memory>

#include "io/scratch.h"
#include "job/planned_job.h"
#include "runtime/executor.h"

namespace spillway::train {

// This computer, with the job's disk paths as its disk tier. Throws InputError for budgets that it cannot meet.
[[nodiscard]] Machine machine_of(const config::Config& config, Device& device);

// The resident set that this process will have reached when the job is done: what it has now, or has had already, and
// the memory of the tiers, which all comes into use, as the rest of the program does. Before JobTiers and the session
// take that memory.
[[nodiscard]] int64_t predicted_rss_bytes(const Job& job, const PlannedJob& planned, const Machine& machine);

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
