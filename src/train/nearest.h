// What a user could change so that a job which does not fit would.
#pragma once

#include <vector>

#include "train/config_load.h"
#include "train/job.h"

namespace spillway::train {

// At most so many changes are offered, and so many plans made to find them.
constexpr size_t kMostChanges = 3;
constexpr int kMostSearches = 10;

struct NearestChanges {
  std::vector<PlanContext::Change> changes;
  int searches = 0;  // plans that were made
};

// Changes of the config with which the job fits, those that ask least of the user: leave the choice to the plan,
// recompute, larger budgets where the machine has the memory, a disk, fewer rows at a time with more accumulation (the
// same step), a host tier, shorter sequences. The fastest come first, but what trains on other rows last. Each is
// written with the keys that the config uses, was loaded as if typed on its command line, and planned; it fits.
// REQUIRES: `job` was made from `loaded`, and `plan`, which is its plan, does not fit.
[[nodiscard]] NearestChanges nearest_changes(const LoadedConfig& loaded, const Job& job, const Plan& plan,
                                             const Machine& machine);

}  // namespace spillway::train
