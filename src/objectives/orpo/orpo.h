// Odds ratio preference optimization (Hong et al., 2024): the loss of the chosen text, plus a term for the odds ratio
// of the two completions. There is no reference.
#pragma once

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// Returns the objective. REQUIRES: settings of PreferenceKind::kOrpo.
[[nodiscard]] ObjectivePtr orpo_objective(const config::PreferenceSettings& settings);

}  // namespace spillway::train
