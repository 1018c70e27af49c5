// Contrastive preference optimization (Xu et al., 2024) and SimPO (Meng et al., 2024): a chosen completion against a
// rejected one by their log-probabilities alone, without a reference, and beside it the chosen text.
#pragma once

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// REQUIRES: settings of PreferenceKind::kCpo.
[[nodiscard]] ObjectivePtr cpo_objective(const config::PreferenceSettings& settings);

}  // namespace spillway::train
