// Completions for users: completions.jsonl, with a JSON object per completion and line, and the texts of a report.
#pragma once

#include <span>
#include <string>

#include "data/rows/prompts.h"
#include "job/job.h"
#include "train/online/round_record.h"

namespace spillway::train {

// Returns the lines of a round's completions in the order of generation, each with a line break. `names` are those of
// the reward functions.
[[nodiscard]] std::string completion_lines(const Job& job, std::span<const std::string> names,
                                           const RoundRecord& record);

// Returns a prompt as one text; for a list of messages, the content of the last one.
[[nodiscard]] std::string shown_prompt(const data::PromptRow& row);
// Returns the weighted sum of the rewards that apply.
[[nodiscard]] double weighted_reward(const rewards::RewardSettings& settings, const Completion& completion);

}  // namespace spillway::train
