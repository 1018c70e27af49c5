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
// with its offsets and its simulated time, so what is said to fit fits. docs/planner.md tells it at length.
#pragma once

#include <cstdint>
#include <span>

#include "plan/candidates.h"

namespace spillway {

// kSketch is for pictures: it ends with the first half of the search, and packs quickly.
enum class SearchEffort : uint8_t { kSketch, kFull };

// A plan that is not written out.
struct Found {
  Choices choices;
  PackEffort effort = PackEffort::kQuick;
  Estimate estimate;  // exact
  bool fits = false;
};

// The fastest plan found that fits; where none does, the one that is nearest to fitting, with `fits` false. It is no
// slower than the plan of any of the starts that fits. What it looks at depends on its arguments alone. A caller that
// finds the starts while the first half of the search runs takes its halves from plan/plan_search.h.
[[nodiscard]] Found search_plan(PlanCandidates& candidates, const Budget& budget, const Policy& policy,
                                SearchEffort effort = SearchEffort::kFull, std::span<const Choices> starts = {});

}  // namespace spillway
