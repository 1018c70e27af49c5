// Completions as users see them: completions.jsonl, a JSON line a completion, and what a report shows.
#pragma once

#include <span>
#include <string>

#include "job/job.h"
#include "train/online/round_record.h"

namespace spillway::train {

// Those of a round, in the order of generation, each with a line break. `names` are the reward functions'.
[[nodiscard]] std::string completion_lines(const Job& job, std::span<const std::string> names,
                                           const RoundRecord& record);

// A prompt as one text: of messages the content of the last.
[[nodiscard]] std::string shown_prompt(const data::PromptRow& row);
// The weighted sum of the rewards that there are.
[[nodiscard]] double weighted_reward(const rewards::RewardSettings& settings, const Completion& completion);

}  // namespace spillway::train
