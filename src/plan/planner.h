// (Graph, Machine, Budget, Policy) -> Plan: where every byte lives, and what a step will cost.
//
// A pure, deterministic function: no allocation of tiers, no device, no clock. What the policy leaves open is chosen so
// that the predicted step is fastest within the budget. Today that is one choice: keep or recompute, block by block.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/budget.h"
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
  // By block, and by value. When nothing fits: those of the plan that needs least.
  std::vector<Treatment> blocks;
  std::vector<Treatment> values;
  Schedule schedule;
  std::vector<int64_t> offsets;  // by buffer
  std::array<TierPeak, kTiers> peaks{};
  std::array<int64_t, kTiers> missing_bytes{};  // where it does not fit
  Simulation simulation;
  Program program;
};

[[nodiscard]] Plan make_plan(const Graph& graph, const Machine& machine, const Budget& budget, const Policy& policy);

// The plan for given treatments, whatever they need.
[[nodiscard]] Plan plan_for(const Graph& graph, const Machine& machine, std::vector<Treatment> blocks);

// The choices between everything resident and everything recomputed, from most memory to least: at most `points` plans,
// each with a larger arena and a faster step than the next.
struct FrontierPoint {
  std::array<int64_t, kTiers> bytes{};
  double micro_step_seconds = 0;
  double update_seconds = 0;
};
[[nodiscard]] std::vector<FrontierPoint> frontier(const Graph& graph, const Machine& machine, int points);

}  // namespace spillway
