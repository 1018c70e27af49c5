// A round of online reinforcement learning on one time axis: what its phases take, what is in memory and on the lanes
// meanwhile. Each phase shows one run of its program in the place of all.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <vector>

#include "job/planned_job.h"
#include "plan/machine.h"
#include "report/run_record.h"
#include "runtime/lane_profile.h"
#include "runtime/timeline.h"

namespace spillway {

// Adds what a round took. `lanes` as TrainingSession::profiles, `program_seconds` as train::RoundRecord has them.
void add_round(GenerationTotals& totals, const train::PlannedJob& planned, std::span<const LaneProfile* const> lanes,
               std::span<const double> program_seconds);

// {"phases": [{"name", "runs", "predicted": [start, seconds], "measured": the same, or null}, ...],
//  "memory": as the report's "memory_over_step", "timeline": as its "timeline"}
// Runs are those predicted. `training` is the timeline of a training step that a run measured; null before one. What
// was measured is means over the rounds, and left out where a program's times are not known.
// REQUIRES: the job is online.
[[nodiscard]] nlohmann::ordered_json round_json(const train::PlannedJob& planned, const Machine& machine,
                                                const Timeline* training, const GenerationTotals* totals);

}  // namespace spillway
