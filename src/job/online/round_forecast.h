// Predicts the time of a round of completions, for display with the plan.
#pragma once

#include <optional>
#include <span>

#include "infer/generation/choosing_cost.h"
#include "job/programs.h"
#include "plan/plan_context.h"

namespace spillway::train {

// Returns the work of the host after each run of the decoding program with `sequences` sequences at once; nothing if
// the program chooses the tokens itself. REQUIRES: the job is online.
[[nodiscard]] std::optional<infer::ChoosingWork> choosing_work(const Job& job, int64_t sequences);

// Predicts a round in which all prompts and completions have their maximal length. Phases name programs by their index
// in `programs`. REQUIRES: the job is online, and its programs are planned.
[[nodiscard]] PlanContext::Generation forecast_round(const Job& job, std::span<const JobProgram> programs,
                                                     const Machine& machine);

}  // namespace spillway::train
