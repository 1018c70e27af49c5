// A config resolved against the model folder: everything that `plan` and `train` need to know before weights are read.
#pragma once

#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "model/model.h"
#include "model/stored_weights.h"
#include "plan/print.h"
#include "train/clips/clip_job.h"
#include "train/evaluation_graph.h"
#include "train/generation/samples.h"
#include "train/online/online_job.h"
#include "train/scoring_graph.h"
#include "train/training_graph.h"

namespace spillway::train {

struct Job {
  config::Config config;
  ModelPtr model;
  TrainingGraphOptions graph;
  Budget budget;
  Policy policy;
  SamplePrompts samples;
  std::optional<ClipJob> clips;     // of a model that reads them
  std::optional<OnlineJob> online;  // of a config that is trained on what the run generates
  std::optional<int32_t> padding;   // of a reward model: the token that fills batches of other programs up
  std::string title;  // "SmolLM2-135M · LoRA r=16, all linear · 4 x 512 tokens per micro-batch · cpu, 2 cores"
  std::vector<std::string> notes;  // what the user should be told, a line each
  std::tm now{};                   // the time that chat templates show
};

// What make_job() need not find out.
struct JobSources {
  std::optional<std::tm> now;  // the time that chat templates show; none: the clock's
  // A job whose prompts or clips are taken over: of a config that is the same in all that says which rows there are,
  // but perhaps for the length of clips.
  const Job* rows = nullptr;
};

// Reads config.json (and the adapter's, with lora_model_dir), no weights. Throws InputError for what does not fit
// together. `machine` says how much memory there is.
[[nodiscard]] Job make_job(const config::Config& config, const Machine& machine, const JobSources& sources = {});

// Of the weights.
[[nodiscard]] int64_t updates_per_step(const Job& job);

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
    GenerationGraphs graphs;
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
[[nodiscard]] PlannedJob plan_job(const Job& job, const Machine& machine);
// `training` is build_training_graph of the job, where that is at hand. `frontier` as in make_plan; it is not in the
// context yet.
[[nodiscard]] PlannedJob plan_job(const Job& job, const Machine& machine, TrainingGraph training,
                                  std::vector<FrontierPoint>* frontier = nullptr);

}  // namespace spillway::train
