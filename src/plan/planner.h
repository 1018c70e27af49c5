// Plans a job, (Graph, Machine, Budget, Policy) -> Plan: where every byte lives, and what a step will cost.
//
// A pure, deterministic function: it allocates no tiers and uses no device or clock. Choices that the policy leaves
// open are made so that the predicted step is fastest within the budget; plan/search.h says how.
#pragma once

#include <array>
#include <cstdint>
#include <span>
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
  int32_t step = 0;         // the step at which that sum is reached
};

struct Plan {
  bool fits = true;
  Choices choices;  // if nothing fits: the choices that come nearest
  Schedule schedule;
  std::vector<int64_t> offsets;  // by buffer
  std::array<TierPeak, kTiers> peaks{};
  std::array<int64_t, kTiers> missing_bytes{};  // if it does not fit
  Simulation simulation;
  Program program;
};

// A point of the frontier: the fastest plans for kFrontierPoints device budgets (or kFewFrontierPoints) from that of a
// plan without a limit down to the least possible, each with a larger arena and a faster step than the next. The other
// tiers are as in the job's budget.
struct FrontierPoint {
  std::array<int64_t, kTiers> bytes{};
  double micro_step_seconds = 0;
  double update_seconds = 0;
  int64_t group = 1;  // micro-batches that a run of the graph's sections computes

  [[nodiscard]] int64_t device_bytes() const { return nth(bytes, Tier::kDevice); }
  [[nodiscard]] double step_seconds(int64_t accumulation) const {
    return static_cast<double>(accumulation) * micro_step_seconds + update_seconds;
  }
};
// The number of points: enough to see the frontier's shape, few enough to wait for.
constexpr int kFrontierPoints = 9;
// The number for graphs that take long to schedule (kManyOperations).
constexpr int kFewFrontierPoints = 5;

// Makes the fastest plan for optimizer steps of `accumulation` micro-batches. The frontier does not depend on the
// device budget, and the plan is no slower than any point of it that fits: its plans are where the search starts.
// `frontier`, unless null, gets its points, without those between its ends that take more and are slower than the plan;
// it costs nothing if the plan fits. Searches on `threads` threads, 0 for as many as there are CPUs; the plan does not
// depend on that.
[[nodiscard]] Plan make_plan(const Graph& graph, const Machine& machine, const Budget& budget, const Policy& policy,
                             int64_t accumulation = 1, std::vector<FrontierPoint>* frontier = nullptr, int threads = 0);

// Makes the plan for given choices, whatever they need.
[[nodiscard]] Plan plan_for(const Graph& graph, const Machine& machine, const Choices& choices,
                            const OwnFiles& own_files = {});

// Makes the plan of another graph of a job, whose sections run between those of the first, in the same memory.
// `choices` are those of the first one's plan, and `own_files` hold its values: values of both graphs live where the
// first has them, weights of further blocks where those of the first one's last block do, and other groups on the
// device; but groups that the first does not have live where `rules` say. All outputs are kept on the device, and
// transfers run as far ahead as fits. REQUIRES: the graph began by Builder::adopt of the first one.
[[nodiscard]] Plan make_plan_beside(const Graph& first, const Choices& choices, const Graph& graph,
                                    const Machine& machine, const Budget& budget, const OwnFiles& own_files = {},
                                    std::span<const Rule> rules = {});

// Makes the plan of a variant of the first graph: of the same sections, blocks and persistent values, with operations
// of its own, in place of which it runs. `choices` are those of the first one's plan, and the variant's as far as its
// operations are the same; gradients of blocks that have none in the first graph live where its other blocks' do. Where
// that does not fit, more blocks recompute, the first ones first, then transfers run less far ahead. `own_files` hold
// the first graph's values. REQUIRES: the graph began by Builder::adopt of the first one.
[[nodiscard]] Plan make_plan_of_variant(const Graph& first, const Choices& choices, const Graph& graph,
                                        const Machine& machine, const Budget& budget, const OwnFiles& own_files = {});

// Returns choices with everything on the device and the same activation policy for every group of saved activations.
[[nodiscard]] Choices uniform_choices(const Graph& graph, ActivationPolicy saved);

}  // namespace spillway
