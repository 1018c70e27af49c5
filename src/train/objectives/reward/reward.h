// Reward models: train a score of whole conversations so that the chosen one of a pair has the higher score (Bradley
// and Terry, 1952).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "config/preference_settings.h"
#include "train/objectives/objective.h"

namespace spillway::train {

// Returns the index of the token whose score is the score of the text: the last that is not padding, as in
// transformers' classifiers, else the first. REQUIRES: there are tokens.
[[nodiscard]] size_t scored_token(std::span<const int32_t> ids, std::optional<int32_t> padding);

// Returns the objective. The score of a conversation is that of scored_token(). REQUIRES: settings of
// PreferenceKind::kReward, and a model whose head is a score.
[[nodiscard]] ObjectivePtr reward_objective(const config::PreferenceSettings& settings, std::optional<int32_t> padding);

}  // namespace spillway::train
