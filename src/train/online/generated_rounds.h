// Rounds whose completions are generated with the session's weights and scored by the config's reward functions. Of
// several ranks each generates for some of the prompts; rank 0 calls the functions, with the whole round.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "job/job.h"
#include "job/online/online_job.h"
#include "rewards/rewards.h"
#include "train/online/job_rewards.h"
#include "train/online/round_source.h"
#include "train/ranks.h"
#include "train/session.h"

namespace spillway::train {

class GeneratedRounds final : public RoundSource {
 public:
  // Borrows its arguments; `functions` are rank 0's, null on the others. Calls `progress` as this rank's completions
  // are done. REQUIRES: the job is online; `models` are attached to the session.
  GeneratedRounds(const Job& job, TrainingSession& session, rewards::RewardFunctions* functions, JobRewards& models,
                  Ranks& ranks, int64_t total_steps, std::function<void(int64_t done, int64_t of)> progress);

  [[nodiscard]] const std::vector<std::string>& reward_names() const override { return names_; }
  [[nodiscard]] RoundAnswer make(const RoundRequest& request) override;

 private:
  void generate(const RoundRequest& request, RoundAnswer& answer);
  void score(const RoundRequest& request, RoundAnswer& answer);
  void call_functions(const RoundRequest& request, RoundAnswer& answer);
  [[nodiscard]] const data::PromptRow& row_of(const RoundRequest& request, int64_t row) const;

  const Job& job_;
  const OnlineJob& online_;
  TrainingSession& session_;
  rewards::RewardFunctions* functions_;
  JobRewards& models_;
  Ranks& ranks_;
  std::vector<std::string> names_;  // of the functions
  int64_t total_steps_;
  std::function<void(int64_t done, int64_t of)> progress_;
};

// Returns the completion as reward functions get it: its text, or a message if the prompt is a list of messages.
[[nodiscard]] nlohmann::ordered_json completion_json(const Job& job, const data::PromptRow& row,
                                                     const std::vector<int32_t>& ids);

}  // namespace spillway::train
