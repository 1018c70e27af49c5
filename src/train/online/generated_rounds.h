// Rounds whose completions are generated with the session's weights and scored by the config's reward functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "job/job.h"
#include "rewards/rewards.h"
#include "train/online/round_source.h"
#include "train/session.h"

namespace spillway::train {

class GeneratedRounds final : public RoundSource {
 public:
  // Borrows its arguments. Calls `progress` as completions are done. REQUIRES: the job is online.
  GeneratedRounds(const Job& job, TrainingSession& session, rewards::RewardFunctions& functions, int64_t total_steps,
                  std::function<void(int64_t done, int64_t of)> progress);

  [[nodiscard]] const std::vector<std::string>& reward_names() const override { return functions_.names(); }
  [[nodiscard]] RoundAnswer make(const RoundRequest& request) override;

 private:
  void generate(const RoundRequest& request, RoundAnswer& answer);
  void score(const RoundRequest& request, RoundAnswer& answer);
  [[nodiscard]] const data::PromptRow& row_of(const RoundRequest& request, int64_t row) const;

  const Job& job_;
  TrainingSession& session_;
  rewards::RewardFunctions& functions_;
  int64_t total_steps_;
  std::function<void(int64_t done, int64_t of)> progress_;
};

// Returns the completion as reward functions get it: its text, or a message if the prompt is a list of messages.
[[nodiscard]] nlohmann::ordered_json completion_json(const Job& job, const data::PromptRow& row,
                                                     const std::vector<int32_t>& ids);

}  // namespace spillway::train
