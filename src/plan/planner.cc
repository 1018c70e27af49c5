#include "plan/planner.h"

#include <algorithm>

#include "base/error.h"
#include "base/math.h"
#include "plan/emit.h"
#include "plan/offsets.h"

namespace spillway {
namespace {

// Fixed buffers stand at the bottom, in the order of the graph's values, so that their places do not depend on the
// treatment of activations; all others are packed above them.
void place_buffers(Plan& plan) {
  const std::vector<Buffer>& buffers = plan.schedule.buffers;
  plan.offsets.assign(buffers.size(), -1);
  int64_t bottom = 0;
  std::vector<Interval> intervals;
  std::vector<size_t> movable;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].fixed) {
      plan.offsets[i] = bottom;
      bottom += align_up(buffers[i].bytes, kArenaAlignment);
    } else {
      intervals.push_back({buffers[i].bytes, buffers[i].begin, buffers[i].end});
      movable.push_back(i);
    }
  }
  const Packing packing = pack(intervals);
  for (size_t k = 0; k < movable.size(); ++k) plan.offsets[movable[k]] = bottom + packing.offsets[k];

  const std::vector<int64_t> live = live_bytes(plan.schedule, Tier::kDevice);
  const auto peak = std::max_element(live.begin(), live.end());
  plan.peaks[static_cast<size_t>(Tier::kDevice)] = {bottom + packing.bytes, bottom + packing.lower_bound,
                                                    static_cast<int32_t>(peak - live.begin())};
}

// Recomputing the first blocks is best: the backward pass reaches them last, when the kept activations of all later
// blocks are gone, so one block's recomputation never meets another block's kept activations.
std::vector<Treatment> recompute_first(size_t blocks, size_t count) {
  std::vector<Treatment> result(blocks, Treatment::kKeep);
  std::fill_n(result.begin(), count, Treatment::kRecompute);
  return result;
}

int64_t shortfall(const Plan& plan, const Budget& budget) {
  const int64_t need = plan.peaks[static_cast<size_t>(Tier::kDevice)].bytes;
  return budget.device ? std::max<int64_t>(0, need - *budget.device) : 0;
}

// The fewest recomputed blocks that fit; the plan that needs least where none does.
Plan choose_activations(const Graph& graph, const Machine& machine, const Budget& budget) {
  const size_t blocks = graph.blocks.size();
  Plan best = plan_for(graph, machine, recompute_first(blocks, 0));
  if (shortfall(best, budget) == 0 || blocks == 0) return best;
  size_t too_few = 0, enough = blocks;
  best = plan_for(graph, machine, recompute_first(blocks, enough));
  while (enough - too_few > 1) {
    const size_t middle = too_few + (enough - too_few) / 2;
    Plan candidate = plan_for(graph, machine, recompute_first(blocks, middle));
    if (shortfall(candidate, budget) <= shortfall(best, budget)) {
      enough = middle;
      best = std::move(candidate);
    } else {
      too_few = middle;
    }
  }
  return best;
}

}  // namespace

Plan plan_for(const Graph& graph, const Machine& machine, std::vector<Treatment> blocks) {
  Plan plan{.blocks = std::move(blocks)};
  plan.values = treat_values(graph, plan.blocks);
  plan.schedule = make_schedule(graph, plan.values, machine.threads);
  place_buffers(plan);
  std::array<int64_t, kTiers> arena_bytes{};
  for (size_t tier = 0; tier < kTiers; ++tier) arena_bytes[tier] = plan.peaks[tier].bytes;
  plan.program = emit_program(graph, plan.schedule, plan.offsets, arena_bytes, machine.threads);
  plan.simulation = simulate(graph, plan.program, machine);
  return plan;
}

Plan make_plan(const Graph& graph, const Machine& machine, const Budget& budget, const Policy& policy) {
  Plan plan = policy[SavedGroup::kProduct]
                  ? plan_for(graph, machine, std::vector<Treatment>(graph.blocks.size(), *policy[SavedGroup::kProduct]))
                  : choose_activations(graph, machine, budget);
  plan.missing_bytes[static_cast<size_t>(Tier::kDevice)] = shortfall(plan, budget);
  plan.fits = shortfall(plan, budget) == 0;
  return plan;
}

std::vector<FrontierPoint> frontier(const Graph& graph, const Machine& machine, int points) {
  const auto blocks = static_cast<int>(graph.blocks.size());
  std::vector<FrontierPoint> result;
  for (int i = 0; i < points; ++i) {
    const int count = points > 1 ? blocks * i / (points - 1) : 0;
    if (i > 0 && count == blocks * (i - 1) / (points - 1)) continue;
    const Plan plan = plan_for(graph, machine, recompute_first(graph.blocks.size(), static_cast<size_t>(count)));
    FrontierPoint point{.micro_step_seconds = plan.simulation.micro_step_seconds,
                        .update_seconds = plan.simulation.update_seconds};
    for (size_t tier = 0; tier < kTiers; ++tier) point.bytes[tier] = plan.peaks[tier].bytes;
    if (result.empty() || point.bytes[0] < result.back().bytes[0]) result.push_back(point);
  }
  return result;
}

}  // namespace spillway
