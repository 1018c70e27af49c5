// Gathers that run ahead of their readers, as loads do.
#pragma once

#include "plan/choices.h"
#include "plan/cost_model.h"
#include "plan/facts.h"
#include "plan/sequence.h"

namespace spillway {

// Moves collectives that only make a whole of what is there already (a gather of weights or of sums) forward within
// their section, so that the lane has ended them when their readers begin. They begin as late as its rate allows, and a
// little earlier; `overlap` bounds the bytes that may wait for their readers, and kSynchronous moves none. Other
// collectives stay where they are, and so does the order of all that are no recomputation. Pure.
void run_gathers_ahead(const GraphFacts& facts, const Placement& placement, const CostModel& costs, Overlap overlap,
                       Sequence& sequence);

}  // namespace spillway
