// Prints a plan as a page for people. For JSON see plan_json.h.
#pragma once

#include <string>

#include "plan/plan_context.h"

namespace spillway {

[[nodiscard]] std::string print_plan(const Graph& graph, const Plan& plan, const PlanContext& context);

}  // namespace spillway
