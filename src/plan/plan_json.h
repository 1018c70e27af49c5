// A plan as JSON, for programs: what `spillway plan --json` prints, and a run leaves as plan.json.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "plan/plan_context.h"

namespace spillway {

// Sizes in bytes, times in seconds. `missing`, `alive_at_peak` and `nearest` are there where the plan does not fit.
[[nodiscard]] nlohmann::ordered_json plan_json(const Graph& graph, const Plan& plan, const PlanContext& context);

// Its `generation`: of a round; what only a run knows is null. REQUIRES: the job has one.
[[nodiscard]] nlohmann::ordered_json generation_json(const PlanContext& context, const Simulation& training);
// Its `frontier`: the fastest step for each amount of device memory.
[[nodiscard]] nlohmann::ordered_json frontier_json(const PlanContext& context);

}  // namespace spillway
