// A job and the plans of all its programs, which share one memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "infer/generation/generation_graphs.h"
#include "job/evaluation_graph.h"
#include "job/job.h"
#include "job/reward_graph.h"
#include "job/scoring_graph.h"
#include "job/training_graph.h"
#include "model/stored_weights.h"
#include "plan/plan_context.h"

namespace spillway::train {

// The plan of a job and what is printed with it.
struct PlannedJob {
  TrainingGraph training;
  struct {
    EvaluationGraph graph;
    Plan plan;  // beside that of training
  } evaluation;
  // Scores of rows or completions that are computed before training.
  struct Scoring {
    std::string_view name;  // for those who read the plan
    ScoringGraph graph;
    Plan plan;
  };
  std::optional<Scoring> scoring;
  // Generation, if the job has prompts to answer.
  struct Generation {
    std::string_view name, prompt_name;  // for those who read the plan
    infer::GenerationGraphs graphs;
    Plan decode, prompt;
    std::optional<Plan> gather;  // of its graph
    // If the config asks to gather the weights and that does not fit: the device memory that generation would need
    // without it.
    int64_t streamed_bytes = 0;
  };
  std::optional<Generation> generation;
  // The reward models of the job.
  struct Reward {
    std::string name;
    RewardGraph graph;
    Plan plan;
  };
  std::vector<Reward> rewards;
  StoredWeights stored;       // where the plan may use the disk
  bool direct_files = false;  // they are read past the page cache, which could not hold them
  Plan plan;
  PlanContext context;
};
// A program that runs in the job's memory, with its graph.
struct JobProgram {
  std::string_view name;  // "training"
  const Graph* graph;
  const Plan* plan;
};
[[nodiscard]] std::vector<JobProgram> programs_of(const PlannedJob& planned);
// Returns the largest peak of a tier over all programs, which is the need of the job.
[[nodiscard]] int64_t peak_bytes(const PlannedJob& planned, Tier tier);
// Returns the memory of a tier that the programs share.
[[nodiscard]] int64_t arena_bytes(const PlannedJob& planned, Tier tier);
// Returns a message that says what is missing if training fits its budget and another program of the job does not; else
// an empty string.
[[nodiscard]] std::string shortage_beside(const PlannedJob& planned);
// Throws InputError that says what is missing, and what would fit, if training or another program does not fit.
void check_fits(const PlannedJob& planned);
[[nodiscard]] PlannedJob plan_job(const Job& job, const Machine& machine);
// The same with `training`, the result of build_training_graph() for the job. `frontier` is as in make_plan(); it is
// not in the context yet.
[[nodiscard]] PlannedJob plan_job(const Job& job, const Machine& machine, TrainingGraph training,
                                  std::vector<FrontierPoint>* frontier = nullptr);

}  // namespace spillway::train
