// Finds config changes with which a job that does not fit would fit.
#pragma once

#include <optional>
#include <vector>

#include "config/load.h"
#include "job/planned_job.h"

namespace spillway::train {

// The largest number of changes that are offered, and of plans that are made to find them.
constexpr size_t kMaxChanges = 3;
constexpr int kMaxSearches = 32;

struct ChangesThatFit {
  std::vector<PlanContext::Change> changes;
  // If there are no changes: the one that comes nearest, and what it takes of each tier.
  std::optional<PlanContext::Change> least;
  int searches = 0;  // plans that were made
};

// Returns changes of the config with which the job fits. Each changes one key if that is enough, else a minimal set:
// none of the keys could be left out. The search prefers changes that ask least of the user (job/suggested_changes.h)
// and keep the budgets; if none suffices, it combines larger budgets with the changes that make them smallest; if that
// fails, it tries 4-bit weights below an adapter, or 8-bit moments. The fastest come first, changes that train
// something else last. Each change is written with the keys that the config uses, was loaded as if given on the command
// line, and planned.
//
// REQUIRES: `job` was made from `loaded`, and `plan`, which is its plan, does not fit.
[[nodiscard]] ChangesThatFit changes_that_fit(const config::LoadedConfig& loaded, const Job& job, const Plan& plan,
                                              const Machine& machine);
// Adds the nearest changes to a planned job that does not fit.
void add_changes_that_fit(const config::LoadedConfig& loaded, const Job& job, const Machine& machine,
                          PlannedJob& planned);

}  // namespace spillway::train
