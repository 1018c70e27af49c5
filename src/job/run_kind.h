// A kind of run: all that depends on what a job is trained on, before weights are read. Each has a folder: rows of
// text, in memory or streamed (job/rows/), clips of a video model (job/clips/), and prompts whose completions are
// rounds of online reinforcement learning (job/online/). What a run does with its data is RunData (train/run_data.h).
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "job/settings.h"
#include "model/model.h"
#include "plan/plan_context.h"

namespace spillway::config {
struct ConfigOverride;
struct LoadedConfig;
}  // namespace spillway::config

namespace spillway::train {

struct Job;
struct JobProgram;
struct SuggestedChange;
struct TrainingData;

// The shape of a row of the data in a micro-batch.
struct RowShape {
  int64_t sequences = 1;
  int64_t text_tokens = 0;  // beside a clip
};

// The completions that a run generates to be trained on; by default none.
struct RunGeneration {
  int64_t at_once = 0;                          // completions that are generated together, at most
  int64_t sequence_len = 0;                     // the longest prompt with the longest completion
  std::optional<bool> gathers_weights = false;  // none: where it is faster
  const config::CompletionSettings* completions = nullptr;
  // The names of the programs.
  std::string_view decode_name = "the answers to sample_prompts", prompt_name = "sample_prompts";
};

// The words for a kind of run in a model card, and what loads its result.
struct CardWords {
  std::string tag, method, task;
  std::string model_class = "ForCausalLM";  // transformers' behind "AutoModel"
  std::string pipeline = {};                // diffusers', in place of that
};

class RunKind {
 public:
  virtual ~RunKind() = default;

  // make_job() calls the next three once, in this order. They throw InputError for what is wrong in the config, the
  // model or the data.
  //
  // Refuses keys of other kinds, and models that the kind does not train. May give the model another head.
  virtual void take_model(Job& job) const = 0;
  // Reads what the sizes of batches depend on, or takes it from `before`, if that is of this kind. Sets the job's
  // sequence_len where the data decide it. REQUIRES: the vocabulary has grown.
  [[nodiscard]] virtual RowShape read(const RunKind* before, Job& job) = 0;
  // Sets the objective of the training graph, and the models that it reads.
  virtual void take_objective(Job& job) const = 0;

  // Throws InputError if files are missing that load() reads.
  virtual void check_files(const Job&) const {}
  // Returns the data of the run, as far as the job does not have them. `now` is the time that chat templates show.
  // Calls `progress` with 0 before records are read, and with the number of those read so far. Throws InputError.
  [[nodiscard]] virtual TrainingData load(const Job& job, const std::optional<std::tm>& now,
                                          const std::function<void(int64_t records)>& progress) const = 0;

  // Returns what the rows of a stream are: "tokens".
  [[nodiscard]] virtual std::string_view unit() const { return "tokens"; }
  // Returns the name of the training method for titles; empty for plain training on text.
  [[nodiscard]] virtual std::string method(const Job& job) const = 0;
  [[nodiscard]] virtual CardWords card(const Job& job) const = 0;
  // Adds the settings that runs of this kind have.
  virtual void add_settings(const Job& job, RunSettings& settings) const = 0;

  // Returns the number of weight updates in an optimizer step.
  [[nodiscard]] virtual int64_t updates_per_step(const Job&) const { return 1; }
  [[nodiscard]] virtual RunGeneration generation(const Job&) const { return {}; }
  // Returns the tokens that end what the run generates.
  [[nodiscard]] virtual std::span<const int32_t> stop_ids() const { return {}; }
  // Sets JobProgram::runs_per_round of programs that run in a round.
  virtual void count_runs(const Job&, std::span<JobProgram>) const {}
  // Predicts the generation of a round by planned programs; none where a run generates nothing to train on.
  [[nodiscard]] virtual std::optional<PlanContext::Generation> forecast(const Job&, std::span<const JobProgram>,
                                                                        const Machine&) const {
    return {};
  }

  // Returns the suggestion to train on less of each row, without grades if there is none. By default a shorter
  // sequence_len.
  [[nodiscard]] virtual SuggestedChange shorter_rows(const config::LoadedConfig& loaded, const Job& job) const;
  // Adds to a change that gives a step `parts` times as many micro-batches what keeps its data the same.
  virtual void add_to_smaller_batches(const config::LoadedConfig&, int64_t /*parts*/,
                                      std::vector<config::ConfigOverride>&) const {}
};

// Returns the kind of run that trains `model` by the config, before it has read anything.
[[nodiscard]] std::shared_ptr<RunKind> make_run_kind(const config::Config& config, const Model& model);
// Returns the kind of a run over rows of text.
[[nodiscard]] std::shared_ptr<const RunKind> row_kind();

}  // namespace spillway::train
