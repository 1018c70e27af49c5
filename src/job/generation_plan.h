// The programs that generate beside training: how many sequences at once, and whether weights that training has
// elsewhere are on the device meanwhile.
#pragma once

#include "job/plan_beside.h"

namespace spillway::train {

// What is answered at once, where up to `at_once` completions are generated together. REQUIRES: the job has prompts to
// answer.
[[nodiscard]] infer::GenerationSizes generation_sizes_of(const Job& job, int64_t at_once);

// Plans them beside planned.plan, which may be short of memory: then so are they. Of a job that is online, what
// ds3_gather_for_generation asks for; where it says nothing, what a round is predicted to be faster with, and weights
// are gathered only in memory that there is a budget for or that training takes anyway.
void plan_generation(const PlanningInputs& inputs, PlannedJob& planned);

}  // namespace spillway::train
