// Plans the programs of a job one by one: training, and those that run beside it in its memory: evaluation, scores,
// rewards, generation.
#pragma once

#include <functional>
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

// Returns the job's policy, completed by the weights in the user's files that the plan may leave there. `training` is
// the result of build_training_graph() for the job.
[[nodiscard]] Policy training_policy(const Job& job, const TrainingGraph& training);

// Makes the plan of the training graph within a budget.
using TrainingPlanner = std::function<Plan(const Budget&)>;
// Plans a job as plan_job() does, with another planner for its training graph.
[[nodiscard]] PlannedJob plan_job(const Job& job, const Machine& machine, TrainingGraph training,
                                  const TrainingPlanner& planner);

}  // namespace spillway::train
