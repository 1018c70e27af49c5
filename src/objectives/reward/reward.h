// Reward models: train a score of whole conversations so that the chosen one of a pair has the higher score (Bradley
// and Terry, 1952).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// Returns the objective. The score of a conversation is that of scored_token(). REQUIRES: settings of
// PreferenceKind::kReward, and a model whose head is a score.
[[nodiscard]] ObjectivePtr reward_objective(const config::PreferenceSettings& settings, std::optional<int32_t> padding);

}  // namespace spillway::train
