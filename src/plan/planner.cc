#include "plan/planner.h"

#include <algorithm>

#include "plan/plan_builder.h"
#include "plan/search.h"

namespace spillway {

Choices uniform_choices(const Graph& graph, Treatment saved) {
  return {.blocks = std::vector<BlockChoice>(graph.blocks.size(), block_choice(saved))};
}

Plan plan_for(const Graph& graph, const Machine& machine, const Choices& choices, const std::vector<bool>& in_files) {
  return PlanBuilder(graph, machine, in_files).build(choices);
}

Plan make_plan(const Graph& graph, const Machine& machine, const Budget& budget, const Policy& policy,
               int64_t accumulation) {
  const PlanBuilder builder(graph, machine, policy.in_files);
  return PlanSearch(builder, budget, policy, accumulation).run();
}

std::vector<FrontierPoint> frontier(const Graph& graph, const Machine& machine, const Budget& budget,
                                    const Policy& policy, int64_t accumulation, int points) {
  const PlanBuilder builder(graph, machine, policy.in_files);
  const auto plan_within = [&](std::optional<int64_t> device) {
    Budget limited = budget;
    limited.device = device;
    return PlanSearch(builder, limited, policy, accumulation).run();
  };
  std::vector<FrontierPoint> result;
  const auto add = [&](const Plan& plan) {
    FrontierPoint point{.micro_step_seconds = plan.simulation.micro_step_seconds,
                        .update_seconds = plan.simulation.update_seconds};
    for (size_t tier = 0; tier < kTiers; ++tier) point.bytes[tier] = plan.peaks[tier].bytes;
    if (result.empty() || point.bytes[0] < result.back().bytes[0]) result.push_back(point);
  };
  const Plan most = plan_within(std::nullopt), least = plan_within(0);
  const int64_t high = most.peaks[0].bytes, low = least.peaks[0].bytes;
  add(most);
  for (int i = points - 2; i > 0; --i) {
    const Plan plan = plan_within(low + (high - low) * i / (points - 1));
    if (plan.fits) add(plan);
  }
  add(least);
  return result;
}

}  // namespace spillway
