// The bar that shows the progress of a run, step by step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/planned_job.h"
#include "report/progress.h"
#include "train/ranks.h"
#include "train/trainer.h"

namespace spillway {

// Returns the planned peaks of the tiers that a job uses, with their budgets.
[[nodiscard]] std::vector<TierMemory> memory_of_tiers(const train::PlannedJob& planned);

class StepBar {
 public:
  // Borrows `progress`.
  StepBar(Progress& progress, std::vector<TierMemory> tiers, const train::Ranks& ranks);

  [[nodiscard]] const std::vector<TierMemory>& tiers() const { return tiers_; }
  // Shows that the step behind `step` has begun, which is likely to take so many seconds.
  void begin_step(int64_t step, int64_t total_steps, double seconds);
  void end_step(const train::StepRecord& record);

 private:
  Progress& progress_;
  std::vector<TierMemory> tiers_;
  std::vector<std::string> rank_names_;  // of several ranks
  ProgressState state_;                  // as it was drawn last
};

}  // namespace spillway
