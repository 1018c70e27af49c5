// completions.jsonl: what was generated, a JSON line a completion.
#pragma once

#include <span>
#include <string>

#include "train/job.h"
#include "train/online/rollout_feed.h"

namespace spillway::train {

// Those of a round, in the order of generation, each with a line break. `names` are the reward functions'.
[[nodiscard]] std::string completion_lines(const Job& job, std::span<const std::string> names,
                                           const RoundRecord& record);

}  // namespace spillway::train
