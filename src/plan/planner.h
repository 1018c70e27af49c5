// (Graph, Machine, Budget, Policy) -> Plan: where every byte lives, and what a step will cost.
//
// A pure, deterministic function: no allocation of tiers, no device, no clock. What the policy leaves open is chosen so
// that the predicted step is fastest within the budget; plan/search.h says how.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/index.h"
#include "plan/budget.h"
#include "plan/choices.h"
#include "plan/machine.h"
#include "plan/schedule.h"
#include "plan/simulate.h"

namespace spillway {

struct TierPeak {
  int64_t bytes = 0;        // the arena
  int64_t lower_bound = 0;  // the largest sum of simultaneously live bytes; the rest is fragmentation
  int32_t step = 0;         // where that sum is reached
};

struct Plan {
  bool fits = true;
  Choices choices;  // when nothing fits: those that come nearest
  Schedule schedule;
  std::vector<int64_t> offsets;  // by buffer
  std::array<TierPeak, kTiers> peaks{};
  std::array<int64_t, kTiers> missing_bytes{};  // where it does not fit
  Simulation simulation;
  Program program;
};

// The fastest plans for kFrontierPoints device budgets from what a plan without a limit takes down to the least there
// is: each with a larger arena and a faster step than the next. The other tiers are as in the job's budget.
struct FrontierPoint {
  std::array<int64_t, kTiers> bytes{};
  double micro_step_seconds = 0;
  double update_seconds = 0;

  [[nodiscard]] int64_t device_bytes() const { return nth(bytes, Tier::kDevice); }
  [[nodiscard]] double step_seconds(int64_t accumulation) const {
    return static_cast<double>(accumulation) * micro_step_seconds + update_seconds;
  }
};
// Enough to see the frontier's shape, few enough to wait for.
constexpr int kFrontierPoints = 9;

// `accumulation`: micro-batches per optimizer step, which is what is made fast. The frontier does not depend on the
// device budget, and the plan is no slower than any point of it that fits: its plans are where the search starts.
// `frontier`, unless null, gets its points, without those between its ends that take more and are slower than the plan;
// it costs nothing where the plan fits. It searches on `threads` threads, 0 for as many as there are CPUs; the plan
// does not depend on that.
[[nodiscard]] Plan make_plan(const Graph& graph, const Machine& machine, const Budget& budget, const Policy& policy,
                             int64_t accumulation = 1, std::vector<FrontierPoint>* frontier = nullptr, int threads = 0);

// The plan for given choices, whatever they need.
[[nodiscard]] Plan plan_for(const Graph& graph, const Machine& machine, const Choices& choices,
                            const OwnFiles& own_files = {});

// The plan of another graph of a job, whose sections run between those of the first, in the same memory. `choices` are
// those of the first one's plan, and `own_files` hold its values: what both have lives where that has it, and what
// further blocks have where the last block of the first has it. Everything that it makes is kept on the device, and
// transfers run as far ahead as fits. REQUIRES: the graph began by Builder::adopt of the first one.
[[nodiscard]] Plan make_plan_beside(const Graph& first, const Choices& choices, const Graph& graph,
                                    const Machine& machine, const Budget& budget, const OwnFiles& own_files = {});

// Everything on the device, and every group of saved activations treated alike.
[[nodiscard]] Choices uniform_choices(const Graph& graph, Treatment saved);

}  // namespace spillway
