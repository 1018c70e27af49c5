// The part of a job that online reinforcement learning needs before weights are read: its prompts, and the size of a
// round.
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

struct OnlineJob {
  std::vector<data::PromptRow> training, validation;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  std::vector<int32_t> stop_ids;  // where a completion ends
  std::shared_ptr<const OnlineObjective> objective;
  int64_t sequence_len = 0;                   // the longest prompt with the longest completion
  int64_t completions_of_rank = 0;            // of a round, at most: those of whole prompts
  int64_t most_at_once = 0;                   // completions that are generated together, at most
  std::vector<JobRewardModel> reward_models;  // each folder once

  // Returns the request to the generator for a row; `number` is the index of the completion in the round.
  [[nodiscard]] infer::Prompt prompt_of(const config::Config& config, const data::PromptRow& row, int64_t round,
                                        int64_t number) const;
};

// Reads the prompts; takes prompts and reward models from `before` if given. `now` is the time that chat templates
// show. Throws InputError for files that cannot be read, for tokens that the model does not have, for a prompt that
// leaves no room for its completion, by its row, and as RewardModel's constructor does. REQUIRES: config.online.
[[nodiscard]] OnlineJob make_online_job(const config::Config& config, const TextModel& model, const std::tm& now,
                                        const OnlineJob* before = nullptr);

}  // namespace spillway::train
