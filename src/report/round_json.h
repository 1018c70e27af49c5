// A round of online reinforcement learning on one time axis: the time of its phases, and the memory and lanes
// meanwhile. Each phase shows one run of its program in place of all.
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

// Adds the times of a round. `lanes` are as in TrainingSession::profiles(), `program_seconds` as in train::RoundRecord.
void add_round(GenerationTotals& totals, const train::PlannedJob& planned, std::span<const LaneProfile* const> lanes,
               std::span<const double> program_seconds);

// {"phases": [{"name", "runs", "predicted": [start, seconds], "measured": the same, or null}, ...],
//  "memory": as the report's "memory_over_step", "timeline": as its "timeline"}
// The number of runs is the predicted one. `training` is the timeline of a training step that a run measured; null
// before one. Measurements are means over the rounds, and are left out if a program's times are unknown.
// REQUIRES: the job is online.
[[nodiscard]] nlohmann::ordered_json round_json(const train::PlannedJob& planned, const Machine& machine,
                                                const Timeline* training, const GenerationTotals* totals);

}  // namespace spillway
