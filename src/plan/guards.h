// Loads that move only what will be read: the weights of those experts that some token has reached.
#pragma once

#include "graph/graph.h"
#include "plan/choices.h"
#include "plan/cost_model.h"
#include "plan/facts.h"
#include "plan/sequence.h"
#include "plan/transfers.h"

namespace spillway {

// Gives loads of weights that their operation reads under a condition (OpDef::guard) that condition, and starts them
// behind the router that makes it known. Such loads no longer run beside what comes before the router, so a section
// gets them only if, by the machine's rates, it takes less time: where few tokens reach few experts, and loads take
// longer than the computation. Plans reserve memory as if all came; predictions count how many come if tokens choose
// at random, which is the most. Pure.
void guard_loads(const Graph& graph, const GraphFacts& facts, const Placement& placement, const Sequence& sequence,
                 const CostModel& costs, Transfers& transfers);

}  // namespace spillway
