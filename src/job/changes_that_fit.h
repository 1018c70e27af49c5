// What a user could change so that a job which does not fit would.
#pragma once

#include <optional>
#include <vector>

#include "config/load.h"
#include "job/planned_job.h"

namespace spillway::train {

// At most so many changes are offered, and so many plans made to find them.
constexpr size_t kMaxChanges = 3;
constexpr int kMaxSearches = 32;

struct NearestChanges {
  std::vector<PlanContext::Change> changes;
  // Where there are none: what comes nearest, and what it takes of each tier.
  std::optional<PlanContext::Change> least;
  int searches = 0;  // plans that were made
};

// Changes of the config with which the job fits, of one key if that is enough, else of as few as are: none of them
// could be left out. Those are looked for first that ask least of the user (job/suggested_changes.h) and keep the
// budgets; where no change does that, larger budgets come together with what makes them least. Where all that finds
// nothing, weights in 4 bits below an adapter, or moments in 8 bits, are tried. The fastest stand first, but what
// trains something else last. Each is written with the keys that the config uses, was loaded as if typed on its command
// line, and planned; it fits.
// REQUIRES: `job` was made from `loaded`, and `plan`, which is its plan, does not fit.
[[nodiscard]] NearestChanges nearest_changes(const config::LoadedConfig& loaded, const Job& job, const Plan& plan,
                                             const Machine& machine);
// Adds them to a planned job, which does not fit.
void add_nearest_changes(const config::LoadedConfig& loaded, const Job& job, const Machine& machine,
                         PlannedJob& planned);

}  // namespace spillway::train
