// Planning what runs beside training, in its memory: evaluation, scores, rewards, generation.
#pragma once

#include <span>

#include "train/planned_job.h"

namespace spillway::train {

// What all programs of a job are planned with. Borrowed.
struct PlanningInputs {
  const Job& job;
  const Machine& machine;
  const Budget& budget;
  const Policy& policy;
};

// The plan of a program whose persistent values that training has, too, live where planned.plan has them, and others
// where `rules` say.
[[nodiscard]] Plan plan_beside(const PlanningInputs& inputs, const PlannedJob& planned, const Graph& graph,
                               std::span<const Rule> rules = {});

}  // namespace spillway::train
