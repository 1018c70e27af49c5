// The search for the fastest plan within a budget.
//
// A *setting* says what happens to the saved activations of a block, *homes* where weights, gradients and optimizer
// state live (plan/ideas.h). For all homes, the search looks at plans that give every block the same setting, and at
// mixtures: the first k blocks have one setting and the others a faster one (or optimizer state that stays on the
// device), with k as small as the budget allows. The first blocks, because the backward pass reaches them last: then
// what all later blocks kept is gone, and there is the most time to bring their saved values back. Where weights are
// away, some blocks keep theirs all the same, spread evenly over the model, so that the link loads the others' while
// these compute.
//
// Forecasts (plan/forecast.h) put the candidates in order. How many of them are looked at falls with the size of the
// graph; of a small one it is all. The search ends with changes of one block or two. Every candidate is a complete plan
// with its offsets and its simulated time, so what is said to fit fits. Of the plans that are equally fast, as far as
// predictions are believed, the one that takes least of the other tiers is the result. docs/planner.md tells it at
// length.
#pragma once

#include <cstdint>
#include <span>

#include "plan/candidates.h"

namespace spillway {

// kSketch is for pictures: it ends with the first half of the search, and packs quickly.
enum class SearchEffort : uint8_t { kSketch, kFull };

// What plans are compared by.
struct PlanCost {
  double seconds = 0;      // of a step
  int64_t bytes_away = 0;  // of all tiers but the device
};
// A plan that takes longer than another one by no more than this share is as fast.
constexpr double kAsFast = 0.01;
// Returns true if the plan is to be chosen over `other`, where the fastest plan that is known takes so many seconds: it
// is as fast as that one and takes less away from the device, or as little in less time; or `other` is not as fast.
[[nodiscard]] bool is_preferred(const PlanCost& plan, const PlanCost& other, double fastest_seconds);

// A plan that is not written out.
struct Found {
  Choices choices;
  PackEffort effort = PackEffort::kQuick;
  Estimate estimate;  // exact
  bool fits = false;
  double fastest_seconds = 0;  // of the fastest plan that was found; where none fits, of this one
};

// Of the plans found that fit and are as fast as the fastest (kAsFast), the one that takes least of the tiers
// beside the device; of a sketch, the fastest. Where none fits, the one that is nearest to fitting, with `fits` false.
// The fastest is no slower than the plan of any of the starts that fits. What the search looks at depends on its
// arguments alone. A caller that finds the starts while its first half runs takes its halves from plan/plan_search.h.
[[nodiscard]] Found search_plan(PlanCandidates& candidates, const Budget& budget, const Policy& policy,
                                SearchEffort effort = SearchEffort::kFull, std::span<const Choices> starts = {});

}  // namespace spillway
