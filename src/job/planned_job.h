// A job and where its bytes live: the plans of all its programs, which share one memory.
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
  // Beside it, where scores are found before training: of rows or of completions.
  struct Scoring {
    std::string_view name;  // for those who read the plan
    ScoringGraph graph;
    Plan plan;
  };
  std::optional<Scoring> scoring;
  // Beside these, where the job has prompts to answer.
  struct Generation {
    std::string_view name, prompt_name;  // for those who read the plan
    infer::GenerationGraphs graphs;
    Plan decode, prompt;
    std::optional<Plan> gather;  // of its graph
    // Where weights are gathered because the config says so: what the device would hold without that.
    int64_t streamed_bytes = 0;
  };
  std::optional<Generation> generation;
  // Beside them, for each reward model of the job.
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
// All programs that run in the job's memory, with their graphs. Each has the persistent values of
// those before it.
struct JobProgram {
  std::string_view name;  // "training"
  const Graph* graph;
  const Plan* plan;
};
[[nodiscard]] std::vector<JobProgram> programs_of(const PlannedJob& planned);
// The most that any of them needs of a tier, which is what the job needs.
[[nodiscard]] int64_t peak_bytes(const PlannedJob& planned, Tier tier);
// The memory of a tier that they share.
[[nodiscard]] int64_t arena_bytes(const PlannedJob& planned, Tier tier);
// What is missing where training fits its budget and another program of the job does not, a whole message; else empty.
[[nodiscard]] std::string shortage_beside(const PlannedJob& planned);
// Throws InputError that says what is missing, and what would fit, where training or another program does not fit.
void check_fits(const PlannedJob& planned);
[[nodiscard]] PlannedJob plan_job(const Job& job, const Machine& machine);
// `training` is build_training_graph of the job, where that is at hand. `frontier` as in make_plan; it is not in the
// context yet.
[[nodiscard]] PlannedJob plan_job(const Job& job, const Machine& machine, TrainingGraph training,
                                  std::vector<FrontierPoint>* frontier = nullptr);

}  // namespace spillway::train
