// Plans the training graphs of a job that trains drawn layers (job/layer_draws.h). Each draw has a graph of its own
// over the same weights and states, which live where the plan of the job's first graph puts them; that is the graph of
// the largest layers, PlannedJob::training as plan_job() returns it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "job/plan_beside.h"
#include "runtime/memory.h"

namespace spillway::train {

struct PlannedDraw {
  TrainingGraph training;
  Plan plan;
};

class DrawPlanner {
 public:
  // Takes the homes from planned.plan, and plans draws that have each layer once and the first ones of the run, for
  // needs(). REQUIRES: job.graph.drawn, and a plan that fits.
  DrawPlanner(const PlanningInputs& inputs, const PlannedJob& planned);

  // Returns graph and plan of a draw: if it can be, a plan that takes no more than `room`, in which it recomputes more
  // than the job's plan where it has to, whatever the job's policy says.
  [[nodiscard]] PlannedDraw plan(const std::vector<int64_t>& layers, const Budget& room) const;
  // Returns what the first draw and those that were planned with it need together, and a little for others.
  [[nodiscard]] const MemoryNeeds& needs() const { return needs_; }

 private:
  void add_gaps(const Plan& plan, const Budget& budget);

  ModelPtr model_;
  TrainingGraphOptions options_;  // of any draw, but for its layers
  std::shared_ptr<const Machine> machine_;
  OwnFiles own_files_;  // of homes_
  Graph homes_;         // the persistent values alone
  Graph wholes_;        // the same, with whole weights where ranks have parts of them
  Choices choices_;
  MemoryNeeds needs_;
};

// Sets planned.draws, and adds to the plan's context what draws of other layers than the first take.
void plan_draws(const PlanningInputs& inputs, PlannedJob& planned);

}  // namespace spillway::train
