// The search for the fastest plan within a budget.
//
// A *setting* is the activation policy of a block; *homes* are the tiers of weights, gradients and optimizer state
// (plan/proposals.h). For all homes, the search looks at plans that give every block the same setting, and at mixtures:
// the first k blocks have one setting and the others a faster one (or optimizer state that stays on the device), with k
// as small as the budget allows. The first blocks are chosen because the backward pass reaches them last: by then the
// values kept by all later blocks are gone, and there is the most time to bring their saved values back. If weights are
// away, some blocks may keep theirs on the device, spread evenly over the model, so that the link loads the others'
// while these compute.
//
// Forecasts (plan/forecast.h) order the candidates. The number that is looked at falls with the size of the graph; for
// a small one it is all. The search ends with changes of one block or two. Every candidate is a complete plan with its
// offsets and its simulated time, so a plan that is said to fit fits. Among plans that are equally fast, as far as
// predictions can tell, the result is the one that takes least of the other tiers. docs/planner.md explains it at
// length.
#pragma once

#include <cstdint>
#include <span>

#include "plan/candidates.h"

namespace spillway {

// The effort of a search. kCoarse, for frontiers, ends with the first half of the search, and packs quickly. kQuick,
// for questions about many plans, is a coarse search that breaks ties.
enum class SearchEffort : uint8_t { kCoarse, kQuick, kFull };

// The figures that plans are compared by.
struct PlanCost {
  double seconds = 0;      // of a step
  int64_t bytes_away = 0;  // of all tiers but the device
};
// The share by which a plan may take longer than another one and still be as fast.
constexpr double kAsFast = 0.01;
// Returns true if the plan is to be chosen over `other`, where the fastest plan that is known takes so many seconds: it
// is as fast as that one and takes less away from the device, or as little in less time; or `other` is not as fast.
[[nodiscard]] bool is_preferred(const PlanCost& plan, const PlanCost& other, double fastest_seconds);

// A plan without its program.
struct Found {
  Choices choices;
  PackEffort effort = PackEffort::kQuick;
  Estimate estimate;  // exact
  bool fits = false;
  double fastest_seconds = 0;  // of the fastest plan that was found; where none fits, of this one
};

// Returns, of the plans found that fit and are as fast as the fastest (kAsFast), the one that takes least of the tiers
// beside the device; in a coarse search, the fastest. If none fits, returns the nearest to fitting, with `fits` false.
// The fastest is no slower than the plan of any of the starts that fits. The candidates looked at depend on the
// arguments alone. A caller that finds the starts while the first half of the search runs uses the two halves of
// plan/plan_search.h.
[[nodiscard]] Found search_plan(PlanCandidates& candidates, const Budget& budget, const Policy& policy,
                                SearchEffort effort = SearchEffort::kFull, std::span<const Choices> starts = {});

}  // namespace spillway
