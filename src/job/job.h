// A config resolved against the model folder: everything that `plan` and `train` need to know before weights are read.
#pragma once

#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "job/run_kind.h"
#include "job/sample_prompts.h"
#include "job/training_graph.h"
#include "model/model.h"
#include "plan/planner.h"

namespace spillway::train {

struct Job {
  config::Config config;
  ModelPtr model;
  TrainingGraphOptions graph;
  std::vector<int64_t> other_groups;  // that the plan may choose in place of graph.micro_batches
  Budget budget;
  Policy policy;
  SamplePrompts samples;
  std::shared_ptr<const RunKind> kind = row_kind();  // with the data that decide sizes
  std::optional<int32_t> padding;  // of a reward model: the token that fills batches of other programs up
  std::string title;  // "SmolLM2-135M · LoRA r=16, all linear · 4 x 512 tokens per micro-batch · cpu, 2 cores"
  std::vector<std::string> notes;  // what the user should be told, a line each
  std::tm now{};                   // the time that chat templates show
};

// Inputs that make_job() would otherwise determine itself.
struct JobSources {
  std::optional<std::tm> now;  // the time that chat templates show; none: the clock's
  // A job whose prompts or clips are reused. Its config selects the same rows; only the length of clips may differ.
  const Job* rows = nullptr;
};

// Reads config.json (and that of lora_model_dir) but no weights. Throws InputError for settings that do not fit
// together. `machine` says how much memory there is.
[[nodiscard]] Job make_job(const config::Config& config, const Machine& machine, const JobSources& sources = {});

// Returns true if the keys let the experts of the job's mixture leave the device: then they stream through it a few at
// a time. Where a key asks for micro-batches that go together layer by layer, expert_offload has to let them.
[[nodiscard]] bool streams_experts(const Job& job);
// Sets ModelOptions::streams_experts, and experts_apart where they stream or expert_offload says where they live.
void take_expert_homes(Job& job);
// Returns the options of the training graph that computes `group` micro-batches together.
[[nodiscard]] TrainingGraphOptions graph_options(const Job& job, int64_t group);
// Returns the draws of a job that trains some layers at a time; none for another job.
[[nodiscard]] std::optional<LayerDraws> layer_draws(const Job& job);
// Returns the number of weight updates in an optimizer step.
[[nodiscard]] int64_t updates_per_step(const Job& job);
// Returns the number of micro-batches of a rank in an update.
[[nodiscard]] int64_t micro_batches_of_rank(const Job& job);

}  // namespace spillway::train
