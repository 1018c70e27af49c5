// Plans the programs that run beside training in its memory: evaluation, scores, rewards, generation.
#pragma once

#include <span>

#include "job/planned_job.h"

namespace spillway::train {

// The inputs of the plans of all programs of a job. Borrowed.
struct PlanningInputs {
  const Job& job;
  const Machine& machine;
  const Budget& budget;
  const Policy& policy;
};

// Returns the plan of a program in which persistent values that it shares with training have the homes that
// planned.plan gives them, and others those that `rules` give them.
[[nodiscard]] Plan plan_beside(const PlanningInputs& inputs, const PlannedJob& planned, const Graph& graph,
                               std::span<const Rule> rules = {});

}  // namespace spillway::train
