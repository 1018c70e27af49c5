// Reward models: a score of a whole conversation, trained so that the chosen one of a pair has the higher score
// (Bradley and Terry, 1952).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// A conversation's score is taken at its last token that is not `padding`, as transformers' classifiers do. REQUIRES:
// settings of PreferenceKind::kReward, and a model whose head is a score.
[[nodiscard]] ObjectivePtr reward_objective(const config::PreferenceSettings& settings, std::optional<int32_t> padding);

}  // namespace spillway::train
