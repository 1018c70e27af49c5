// Decides which values are in which memory when, and when they move.
//
// A value that lives in another tier than the one in which operations need it comes for a *stay*, a period of
// residency: a run of uses that lie close together. Before the stay it is loaded, unless the stay begins by writing it;
// afterwards it is stored, if it was written and its home needs the new content. Every kind of offloading (activations,
// layers, gradients, optimizer state) is this with another home.
//
// Loads are started as late as the lane's rate allows, and a little earlier; stores as soon as the value is final, and
// collectives as soon as their inputs are. Overlap bounds how much of each may be under way. This stage knows no
// offsets and no buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/choices.h"
#include "plan/cost_model.h"
#include "plan/sequence.h"

namespace spillway {

// The condition of a load: that some token has reached an expert, which the router says at run time.
struct LoadGuard {
  Instance offsets = kNone;  // where the rows of each expert begin; kNone: the load has no condition
  int32_t index = kNone;     // of the expert (graph/operation.h, Guard)
  double chance = 1;         // that it is met
};

// One residency of a value in a tier. Positions are indices of executions.
struct Stay {
  ValueId storage = kNone;  // the persistent value whose place it is, or the value itself
  Tier tier = Tier::kDevice;
  int32_t first = 0, last = 0;  // uses
  int32_t not_before = 0;       // the value is somewhere else until then
  bool loads = false, stores = false;
  ValueId loaded = kNone, stored = kNone;  // versions
  int32_t load_before = 0;                 // the load is started right before this execution
  int32_t store_after = 0;                 // the store right after this one: the last that writes
  int32_t stored_by = 0;                   // when this execution begins, the store should have ended
  LoadGuard guard;
};

struct Transfers {
  std::vector<Stay> stays;  // in order of `first`
  // By value: whether it lives in another tier than some of its uses. Then its stays say where it is, and when.
  Flags moves;
  // By execution, of collectives: when this execution begins, it should have ended. Empty if there are none.
  std::vector<int32_t> finished_by;
};

// Plans the transfers. `facts` is facts_of(graph), `sequence` that of the placement's recomputed values; `costs` gives
// the times. Pure.
[[nodiscard]] Transfers plan_transfers(const Graph& graph, const GraphFacts& facts, const Placement& placement,
                                       const Sequence& sequence, const CostModel& costs, Overlap overlap);

// Returns the lane that carries a value from one tier to another. REQUIRES: one of the pairs that a lane connects.
[[nodiscard]] Lane lane_between(Tier from, Tier to);

}  // namespace spillway
