// Chooses the order of a step's micro-batches by the plans: one after another, or layer by layer in groups
// (docs/modes/vertical.md).
#pragma once

#include <vector>

#include "job/plan_beside.h"
#include "plan/hiding_count.h"

namespace spillway::train {

// Returns true if another order may be so much faster than `plan`: weights, gradients or states come to the device for
// each run of training's sections, and a step takes longer than computing everything once, which takes
// `computing_seconds`. `runs` is the number of runs of a step.
[[nodiscard]] bool may_gain_by_order(const Graph& graph, const Plan& plan, int64_t runs, double computing_seconds);

// Plans training in the job's other orders, by quick searches, if one may be faster than the plan, or if the plan does
// not fit though it is of a group. Replaces the plan, and its graph, by that of the smallest group that is as fast as
// the fastest. Sets PlanContext::group and other_orders, and replaces points of `frontier`, unless null, that are
// faster in another order. REQUIRES: planned.plan and planned.context are those of training alone.
void choose_order(const PlanningInputs& inputs, PlannedJob& planned, std::vector<FrontierPoint>* frontier);

}  // namespace spillway::train
