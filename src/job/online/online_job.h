// Runs of online reinforcement learning, before weights are read: their prompts, and the size of a round.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <vector>

#include "config/config.h"
#include "data/rows/prompts.h"
#include "infer/generation/generate.h"
#include "infer/scoring/reward_program.h"
#include "job/online/rounds.h"
#include "job/run_kind.h"
#include "model/model.h"
#include "objectives/online/online.h"
#include "text/tokenizer.h"

namespace spillway::train {

// A reward model of the job, and the capacity of its program.
struct JobRewardModel {
  std::shared_ptr<const infer::RewardModel> model;
  int64_t longest_prompt = 0;  // of the job, in its tokens
  infer::RewardRoom room;
};

class OnlineJob final : public RunKind {
 public:
  void take_model(Job& job) const override;
  // Takes prompts and reward models from `before`. Throws InputError for files that cannot be read, for tokens that the
  // model does not have, for a prompt that leaves no room for its completion, by its row, and as RewardModel's
  // constructor does.
  [[nodiscard]] RowShape read(const RunKind* before, Job& job) override;
  void take_objective(Job& job) const override;
  [[nodiscard]] TrainingData load(const Job& job, const std::optional<std::tm>& now,
                                  const std::function<void(int64_t records)>& progress) const override;
  [[nodiscard]] std::string method(const Job& job) const override;
  [[nodiscard]] CardWords card(const Job& job) const override;
  void add_settings(const Job& job, RunSettings& settings) const override;
  [[nodiscard]] int64_t updates_per_step(const Job& job) const override;
  [[nodiscard]] RunGeneration generation(const Job& job) const override;
  [[nodiscard]] std::span<const int32_t> stop_ids() const override { return ends; }
  void count_runs(const Job& job, std::span<JobProgram> programs) const override;
  [[nodiscard]] std::optional<PlanContext::Generation> forecast(const Job& job, std::span<const JobProgram> programs,
                                                                const Machine& machine) const override;
  void add_to_smaller_batches(const config::LoadedConfig& loaded, int64_t parts,
                              std::vector<config::ConfigOverride>& change) const override;

  // Returns the request to the generator for a row; `number` is the index of the completion in the round.
  [[nodiscard]] infer::Prompt prompt_of(const config::Config& config, const data::PromptRow& row, int64_t round,
                                        int64_t number) const;

  std::vector<data::PromptRow> training, validation;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::vector<int32_t> ends;  // where a completion ends
  std::shared_ptr<const OnlineObjective> objective;
  int64_t sequence_len = 0;                   // the longest prompt with the longest completion
  int64_t completions_of_rank = 0;            // of a round, at most: those of whole prompts
  int64_t most_at_once = 0;                   // completions that are generated together, at most
  std::vector<JobRewardModel> reward_models;  // each folder once
};

// REQUIRES: the job is online.
[[nodiscard]] const OnlineJob& online_of(const Job& job);

}  // namespace spillway::train
