#include "plan/planner.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/index.h"
#include "base/parallel.h"
#include "base/sizes.h"
#include "graph/builder.h"
#include "plan/plan_builder.h"
#include "plan/plan_builders.h"
#include "plan/plan_search.h"
#include "plan/run_all.h"

namespace spillway {
namespace {

// Quick plans for device budgets that depend on the graph, the machine and the other tiers alone.
class FrontierSearch {
 public:
  FrontierSearch(const PlanBuilder& builder, int64_t accumulation, KnownPlans& known, const Budget& budget,
                 const Policy& policy)
      : builder_(builder), accumulation_(accumulation), known_(known), budget_(budget), policy_(policy) {}

  // Finds the least plan and, if it takes no more than `enough`, the largest and those in between. Runs these and
  // `beside` on `threads` threads.
  void run(int64_t enough, int threads, const std::function<void()>& beside) {
    std::once_flag ends;
    Found most;
    std::vector<Found> between(points_ - 2);
    bool is_enough = false;
    run_all(std::ssize(between) + 1, threads, [&](int64_t task) {
      if (task == 0) return beside();
      std::call_once(ends, [&] {
        least_ = plan_within(0, {});
        is_enough = least_.estimate.device_bytes() <= enough;
        if (is_enough) most = plan_within(std::nullopt, {&least_.choices, 1});
      });
      if (!is_enough) return;
      const int64_t low = least_.estimate.device_bytes(), high = most.estimate.device_bytes();
      const int64_t device = low + (high - low) * task / (std::ssize(between) + 1);
      nth(between, task - 1) = plan_within(device, {&least_.choices, 1});
    });
    if (!is_enough) return;
    add(least_);
    for (const Found& found : between)
      if (found.fits) add(found);
    if (most.fits) add(most);
  }

  // Returns the points from the largest to the smallest, without those that are slower than a smaller one or take no
  // less than one that is as fast or faster.
  [[nodiscard]] std::vector<FrontierPoint> points() const {
    std::vector<FrontierPoint> result;
    for (const CoarsePlan& coarse_plan : coarse_plans_) {
      const double seconds = coarse_plan.point.step_seconds(accumulation_);
      if (!result.empty() && seconds > result.back().step_seconds(accumulation_)) continue;
      while (!result.empty() && coarse_plan.point.device_bytes() <= result.back().device_bytes()) result.pop_back();
      result.push_back(coarse_plan.point);
    }
    std::reverse(result.begin(), result.end());
    return result;
  }

  // Returns the choices of the points, the fastest first.
  [[nodiscard]] std::vector<Choices> choices() const {
    std::vector<Choices> result;
    for (size_t i = coarse_plans_.size(); i-- > 0;) result.push_back(coarse_plans_[i].choices);
    if (result.empty()) result.push_back(least_.choices);
    return result;
  }

 private:
  struct CoarsePlan {
    Choices choices;
    FrontierPoint point;
  };

  [[nodiscard]] Found plan_within(std::optional<int64_t> device, std::span<const Choices> starts) const {
    Budget limited = budget_;
    limited.device = device;
    PlanCandidates candidates(builder_, accumulation_, known_);
    return search_plan(candidates, limited, policy_, SearchEffort::kCoarse, starts);
  }

  // Device memory is not checked, since no plan fits in none, but the other tiers must fit.
  void add(const Found& found) {
    Budget others = budget_;
    others.device = std::nullopt;
    const Estimate& estimate = found.estimate;
    if (missing_bytes(estimate.bytes, others) > 0) return;
    coarse_plans_.push_back({found.choices, {estimate.bytes, estimate.micro_step_seconds, estimate.update_seconds}});
  }

  const PlanBuilder& builder_;
  int64_t accumulation_;
  KnownPlans& known_;
  const Budget& budget_;
  const Policy& policy_;
  size_t points_ = builder_.scheduling_work() > kManyOperations ? kFewFrontierPoints : kFrontierPoints;
  std::vector<CoarsePlan> coarse_plans_;  // from the least to the most
  Found least_;
};

// Returns the home of a group that another graph of the job adds to the first one's: that of such weights in the first
// one's last block, or outside blocks; all else stays on the device.
Tier home_as_in(const Graph& first, const Choices& choices, const Group& group) {
  const BlockId block = group.block == kNone ? kNone : static_cast<BlockId>(first.blocks.size()) - 1;
  const std::array parts = {std::string_view(group.part), std::string_view()};
  for (const std::string_view part : std::span(parts).first(group.part == kTablePart ? 2 : 1)) {
    for (const ValueKind kind : {ValueKind::kFrozenWeight, ValueKind::kTrainableWeight}) {
      const GroupId alike = group.kind == ValueKind::kFrozenWeight ? first.find_group(kind, block, part) : kNone;
      if (alike != kNone) return nth(choices.groups, alike).home;
    }
  }
  return Tier::kDevice;
}

// Returns the home of gradients of blocks in a plan of a graph; the device if it has none.
Tier home_of_gradients(const Graph& graph, const Choices& choices) {
  constexpr GroupPattern kOfBlocks{.kind = ValueKind::kGradient, .in_block = true};
  for (size_t i = 0; i < graph.groups.size(); ++i)
    if (kOfBlocks.matches(graph.groups[i])) return choices.groups[i].home;
  return Tier::kDevice;
}

// Makes the first `count` blocks recompute what they keep.
void recompute_first(int64_t count, Choices& choices) {
  for (BlockId block = 0; block < count; ++block) {
    for (size_t i = 0; i < kSavedGroups; ++i) {
      ActivationPolicy& saved = nth(choices.saved, block)[i];
      const bool is_boundary = static_cast<SavedGroup>(i) == SavedGroup::kBoundary;
      if (!is_boundary && saved == ActivationPolicy::kKeep) saved = ActivationPolicy::kRecompute;
    }
  }
}

// Returns the points without those between the ends that the plan beats in both bytes and time.
std::vector<FrontierPoint> without_beaten(std::vector<FrontierPoint> points, const Plan& plan, int64_t accumulation) {
  if (!plan.fits || points.size() < 3) return points;
  const auto beaten = std::remove_if(points.begin() + 1, points.end() - 1, [&](const FrontierPoint& point) {
    return point.device_bytes() >= nth(plan.peaks, Tier::kDevice).bytes &&
           point.step_seconds(accumulation) > plan.simulation.step_seconds(accumulation);
  });
  points.erase(beaten, points.end() - 1);
  return points;
}

}  // namespace

Choices uniform_choices(const Graph& graph, ActivationPolicy saved) {
  return {.groups = std::vector<Residency>(graph.groups.size()),
          .saved = std::vector<Saved>(graph.blocks.size(), saved_alike(saved))};
}

Plan plan_for(const Graph& graph, const Machine& machine, const Choices& choices, const OwnFiles& own_files) {
  return PlanBuilder(graph, machine, own_files).build(choices);
}

Plan make_plan_beside(const Graph& first, const Choices& choices, const Graph& graph, const Machine& machine,
                      const Budget& budget, const OwnFiles& own_files, std::span<const Rule> rules) {
  OwnFiles files = own_files;
  files.held = adopted_flags(own_files.held, first, graph);
  const PlanBuilder builder(graph, machine, std::move(files));
  Choices kept = uniform_choices(graph, ActivationPolicy::kKeep);
  std::copy(choices.groups.begin(), choices.groups.end(), kept.groups.begin());
  for (size_t i = first.groups.size(); i < graph.groups.size(); ++i) {
    const Group& group = graph.groups[i];
    const std::optional<Tier> ruled = home_of(rules, group);
    kept.groups[i] = residency_in(ruled ? *ruled : home_as_in(first, choices, group), group);
  }
  kept.synchronous_activations = choices.synchronous_activations;
  Plan plan;
  for (const Overlap overlap : {Overlap::kWide, Overlap::kNarrow, Overlap::kSynchronous}) {
    kept.overlap = overlap;
    plan = builder.build(kept);
    compare_with(plan, budget);
    if (plan.fits) break;
  }
  return plan;
}

Plan make_plan_of_variant(const Graph& first, const Choices& choices, const Graph& graph, const Machine& machine,
                          const Budget& budget, const OwnFiles& own_files) {
  OwnFiles files = own_files;
  files.held = adopted_flags(files.held, first, graph);
  const PlanBuilder builder(graph, machine, std::move(files));
  Choices own = choices;
  for (size_t i = first.groups.size(); i < graph.groups.size(); ++i)
    own.groups.push_back(residency_in(home_of_gradients(first, choices), graph.groups[i]));
  const auto planned = [&] {
    Plan plan = builder.build(own);
    compare_with(plan, budget);
    return plan;
  };
  Plan plan = planned();
  const int64_t blocks = std::ssize(graph.blocks);
  for (int64_t count = 1; !plan.fits && count < 2 * blocks; count *= 2) {
    const std::vector<Saved> before = own.saved;
    recompute_first(std::min(count, blocks), own);
    if (own.saved != before) plan = planned();
  }
  for (const Overlap overlap : {Overlap::kNarrow, Overlap::kSynchronous}) {
    if (plan.fits || overlap >= own.overlap) continue;
    own.overlap = overlap;
    plan = planned();
  }
  return plan;
}

Plan make_plan(const Graph& graph, const Machine& machine, const Budget& budget, const Policy& policy,
               int64_t accumulation, std::vector<FrontierPoint>* frontier, int threads) {
  const PlanBuilders builders(graph, machine, policy.own_files);
  const auto search_with = [&](const PlanBuilder& builder, const Budget& room) {
    KnownPlans known;
    FrontierSearch coarse_plans(builder, accumulation, known, room, policy);
    PlanCandidates candidates(builder, accumulation, known);
    constexpr int64_t kAnything = std::numeric_limits<int64_t>::max();
    const auto run_coarse_searches = [&](const std::function<void()>& beside) {
      coarse_plans.run(frontier ? kAnything : room.device.value_or(kAnything), threads > 0 ? threads : available_cpus(),
                       beside);
    };
    PlanSearch search(candidates, room, policy, SearchEffort::kFull);
    if (!search.begin()) {
      run_coarse_searches([&] { search.climb(); });
    } else if (frontier) {
      run_coarse_searches([] {});
    }
    const Found found = search.finish(coarse_plans.choices());
    if (frontier) *frontier = coarse_plans.points();
    return found;
  };
  Plan plan = builders.plan_of(search_with, budget);
  if (frontier) *frontier = without_beaten(std::move(*frontier), plan, accumulation);
  return plan;
}

}  // namespace spillway
