#include "plan/planner.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "plan/plan_builder.h"
#include "plan/search.h"

namespace spillway {
namespace {

// Sketches of plans for device budgets that depend on the graph, the machine and the other tiers alone.
class Ladder {
 public:
  Ladder(PlanCandidates& candidates, const Budget& budget, const Policy& policy)
      : candidates_(candidates), budget_(budget), policy_(policy), least_(plan_within(0)) {
    add(least_);
  }

  [[nodiscard]] int64_t min_bytes() const { return least_.peaks[0].bytes; }

  // From the least to the most: what fits goes on fitting.
  void climb() {
    const int64_t low = min_bytes(), high = plan_within(std::nullopt).peaks[0].bytes;
    for (int i = 1; i < kFrontierPoints; ++i) {
      const bool is_last = i + 1 == kFrontierPoints;
      const Plan plan =
          plan_within(is_last ? std::nullopt : std::optional(low + (high - low) * i / (kFrontierPoints - 1)));
      if (plan.fits) add(plan);
    }
  }

  // From the most to the least; a plan that takes no more than a slower one stands for both.
  [[nodiscard]] std::vector<FrontierPoint> points() const {
    std::vector<FrontierPoint> result;
    for (size_t i = rungs_.size(); i-- > 0;) {
      const FrontierPoint& point = rungs_[i].point;
      if (result.empty() || point.bytes[0] < result.back().bytes[0]) result.push_back(point);
    }
    return result;
  }

  // The fastest first.
  [[nodiscard]] std::vector<Choices> choices() const {
    std::vector<Choices> result;
    for (size_t i = rungs_.size(); i-- > 0;) result.push_back(rungs_[i].choices);
    if (result.empty()) result.push_back(least_.choices);
    return result;
  }

 private:
  struct Rung {
    Choices choices;
    FrontierPoint point;
  };

  [[nodiscard]] Plan plan_within(std::optional<int64_t> device) const {
    Budget limited = budget_;
    limited.device = device;
    std::vector<Choices> start;
    if (!rungs_.empty()) start.push_back(rungs_.back().choices);
    return search_plan(candidates_, limited, policy_, SearchEffort::kSketch, start);
  }

  // No plan fits no device memory at all, but it may fit the other tiers.
  void add(const Plan& plan) {
    if (std::any_of(plan.missing_bytes.begin() + 1, plan.missing_bytes.end(), [](int64_t b) { return b > 0; })) return;
    FrontierPoint point{.micro_step_seconds = plan.simulation.micro_step_seconds,
                        .update_seconds = plan.simulation.update_seconds};
    for (size_t tier = 0; tier < kTiers; ++tier) point.bytes[tier] = plan.peaks[tier].bytes;
    rungs_.push_back({plan.choices, point});
  }

  PlanCandidates& candidates_;
  const Budget& budget_;
  const Policy& policy_;
  std::vector<Rung> rungs_;
  Plan least_;
};

}  // namespace

Choices uniform_choices(const Graph& graph, Treatment saved) {
  return {.blocks = std::vector<BlockChoice>(graph.blocks.size(), block_choice(saved))};
}

Plan plan_for(const Graph& graph, const Machine& machine, const Choices& choices, const std::vector<bool>& in_files) {
  return PlanBuilder(graph, machine, in_files).build(choices);
}

Plan make_plan_beside(const Choices& first, const Graph& graph, const Machine& machine, const Budget& budget,
                      const std::vector<bool>& in_files) {
  const PlanBuilder builder(graph, machine, in_files);
  Choices choices = first;
  choices.blocks.resize(graph.blocks.size(), choices.blocks.empty() ? BlockChoice{} : choices.blocks.back());
  for (BlockChoice& block : choices.blocks) block.saved.fill(Treatment::kKeep);
  Plan plan;
  for (const Overlap overlap : {Overlap::kWide, Overlap::kNarrow, Overlap::kSynchronous}) {
    choices.overlap = overlap;
    plan = builder.build(choices);
    compare_with(plan, budget);
    if (plan.fits) break;
  }
  return plan;
}

Plan make_plan(const Graph& graph, const Machine& machine, const Budget& budget, const Policy& policy,
               int64_t accumulation, std::vector<FrontierPoint>* frontier) {
  const PlanBuilder builder(graph, machine, policy.in_files);
  PlanCandidates candidates(builder, accumulation);
  Ladder ladder(candidates, budget, policy);
  if (frontier || ladder.min_bytes() <= budget.device.value_or(std::numeric_limits<int64_t>::max())) ladder.climb();
  if (frontier) *frontier = ladder.points();
  return search_plan(candidates, budget, policy, SearchEffort::kFull, ladder.choices());
}

}  // namespace spillway
