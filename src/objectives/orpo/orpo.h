// Odds ratio preference optimization (Hong et al., 2024): the text of the chosen completion is learned, and the odds of
// the completions are drawn apart. There is no reference.
#pragma once

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// REQUIRES: settings of PreferenceKind::kOrpo.
[[nodiscard]] ObjectivePtr orpo_objective(const config::PreferenceSettings& settings);

}  // namespace spillway::train
