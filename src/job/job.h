// A config resolved against the model folder: everything that `plan` and `train` need to know before weights are read.
#pragma once

#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "job/clip_job.h"
#include "job/online/online_job.h"
#include "job/sample_prompts.h"
#include "job/training_graph.h"
#include "model/model.h"
#include "plan/planner.h"

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

}  // namespace spillway::train
