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
  PlanCandidates candidates(builder, accumulation);
  return PlanSearch(candidates, budget, policy).run();
}

std::vector<FrontierPoint> frontier(const Graph& graph, const Machine& machine, const Budget& budget,
                                    const Policy& policy, int64_t accumulation, int points) {
  const PlanBuilder builder(graph, machine, policy.in_files);
  PlanCandidates candidates(builder, accumulation);
  const auto plan_within = [&](std::optional<int64_t> device, const Plan* smaller) {
    Budget limited = budget;
    limited.device = device;
    return PlanSearch(candidates, limited, policy, SearchEffort::kSketch).run(smaller ? &smaller->choices : nullptr);
  };
  // No plan fits no device memory at all, but it may fit the other tiers.
  const auto fits_elsewhere = [](const Plan& plan) {
    return std::all_of(plan.missing_bytes.begin() + 1, plan.missing_bytes.end(), [](int64_t b) { return b == 0; });
  };
  // From the least to the most: what fits goes on fitting.
  std::vector<FrontierPoint> result;
  const auto add = [&](const Plan& plan) {
    FrontierPoint point{.micro_step_seconds = plan.simulation.micro_step_seconds,
                        .update_seconds = plan.simulation.update_seconds};
    for (size_t tier = 0; tier < kTiers; ++tier) point.bytes[tier] = plan.peaks[tier].bytes;
    if (result.empty() || point.bytes[0] > result.back().bytes[0]) result.push_back(point);
  };
  Plan plan = plan_within(0, nullptr);
  const int64_t low = plan.peaks[0].bytes, high = plan_within(std::nullopt, nullptr).peaks[0].bytes;
  if (fits_elsewhere(plan)) add(plan);
  for (int i = 1; i < points; ++i) {
    plan = plan_within(i + 1 < points ? std::optional(low + (high - low) * i / (points - 1)) : std::nullopt, &plan);
    if (plan.fits) add(plan);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace spillway
