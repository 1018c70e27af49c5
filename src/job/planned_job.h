// A job and the plans of all its programs, which share one memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/programs.h"
#include "job/training_graph.h"
#include "model/stored_weights.h"
#include "plan/plan_context.h"

namespace spillway::train {

class DrawPlanner;

// The plan of a job and what is printed with it.
struct PlannedJob {
  // A job of drawn layers has those of one draw here: first the heaviest, then the one that the session trains.
  TrainingGraph training;
  Plan plan;                                 // of training
  std::shared_ptr<const DrawPlanner> draws;  // of drawn layers: what plans the other draws; null for other jobs
  std::vector<JobProgram> beside;            // every other program, planned beside training
  // If the config asks to gather the weights and that does not fit: the device memory that generation would need
  // without it.
  int64_t streamed_bytes = 0;
  StoredWeights stored;       // where the plan may use the disk
  bool direct_files = false;  // they are read past the page cache, which could not hold them
  PlanContext context;

  // Returns the program of this kind, of several that with this number; null if there is none.
  [[nodiscard]] const JobProgram* find(JobProgram::Kind kind, size_t number = 0) const;
  // Returns how many micro-batches a run of that program computes. REQUIRES: there is one, and it reads rows.
  [[nodiscard]] int64_t together(JobProgram::Kind kind, size_t number = 0) const;
};
// Returns the largest peak of a tier over all programs, which is the need of the job.
[[nodiscard]] int64_t peak_bytes(const PlannedJob& planned, Tier tier);
// Returns the memory of a tier that the programs share.
[[nodiscard]] int64_t arena_bytes(const PlannedJob& planned, Tier tier);
// Returns a message that says what is missing if training fits its budget and another program of the job does not; else
// an empty string.
[[nodiscard]] std::string shortage_beside(const PlannedJob& planned);
// Returns true if training and all other programs fit.
[[nodiscard]] bool fits(const PlannedJob& planned);
// Throws InputError that says what is missing, and what would fit, if training or another program does not fit.
void check_fits(const PlannedJob& planned);
// Plans all programs of a job. Where the job leaves its stage of ZeRO to the plan (RankSettings::chooses_stage) and the
// one that sends least does not fit, weights are split, too: PlanContext::zero_stage says what the plan took.
[[nodiscard]] PlannedJob plan_job(const Job& job, const Machine& machine);
// The same with `training`, the result of build_training_graph() for the job. `frontier` is as in make_plan(); it is
// not in the context yet.
[[nodiscard]] PlannedJob plan_job(const Job& job, const Machine& machine, TrainingGraph training,
                                  std::vector<FrontierPoint>* frontier = nullptr);

}  // namespace spillway::train
