// Plans the programs that generate beside training: how many sequences at once, and whether weights that training keeps
// elsewhere are on the device meanwhile.
#pragma once

#include "job/plan_beside.h"

namespace spillway::train {

// Adds the programs that generate to planned.beside, planned beside planned.plan; if that is short of memory, so are
// they. An online job gathers the weights on the device as ds3_gather_for_generation says; without that key it does so
// if a round is predicted to be faster that way, and only in memory that is budgeted or that training takes anyway.
void plan_generation(const PlanningInputs& inputs, PlannedJob& planned);

}  // namespace spillway::train
