// Writes a plan as JSON, for programs: the output of `spillway plan --json`, and a run's plan.json.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/plan_context.h"

namespace spillway {

// Sizes are in bytes, times in seconds. `missing`, `alive_at_peak` and `nearest` are present if the plan does not fit.
[[nodiscard]] nlohmann::ordered_json plan_json(const Graph& graph, const Plan& plan, const PlanContext& context);

// Returns its `generation`, for one round; values that only a run knows are null. REQUIRES: the job has one.
[[nodiscard]] nlohmann::ordered_json generation_json(const PlanContext& context, const Simulation& training);
// Returns its `frontier`: the fastest step for each amount of device memory.
[[nodiscard]] nlohmann::ordered_json frontier_json(const PlanContext& context);

}  // namespace spillway
