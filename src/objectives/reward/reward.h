// Reward models: a score of a whole conversation, trained so that the chosen one of a pair has the higher score
// (Bradley and Terry, 1952).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// The token of a text whose score counts: the last that is not padding, as transformers' classifiers have it, else the
// first. REQUIRES: there are tokens.
[[nodiscard]] size_t scored_token(std::span<const int32_t> ids, std::optional<int32_t> padding);

// A conversation's score is taken at its last token that is not `padding`, as transformers' classifiers do. REQUIRES:
// settings of PreferenceKind::kReward, and a model whose head is a score.
[[nodiscard]] ObjectivePtr reward_objective(const config::PreferenceSettings& settings, std::optional<int32_t> padding);

}  // namespace spillway::train
