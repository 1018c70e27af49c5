// Programs without a backward pass compute several micro-batches layer by layer where weights come from slower memory:
// evaluation, scores of a reference, reward models (docs/modes/vertical.md).
#pragma once

#include "job/plan_beside.h"

namespace spillway::train {

// Plans a program that reads rows beside training. Where it would wait for weights, its plan is that of as many
// micro-batches together as hide what moves, at most BatchSettings::forward_group, that fit. REQUIRES: the program
// computes one micro-batch.
void plan_in_group(const PlanningInputs& inputs, const PlannedJob& planned, JobProgram& program);

// Returns true if the plan of a program that does more at a time fits: within the budgets, and in a tier without one
// within what training takes, or the plan `of_one` that it replaces.
[[nodiscard]] bool fits_instead(const PlanningInputs& inputs, const PlannedJob& planned, const Plan& of_one,
                                const Plan& plan);

}  // namespace spillway::train
