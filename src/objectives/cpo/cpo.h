// Contrastive preference optimization (Xu et al., 2024) and SimPO (Meng et al., 2024): compare a chosen with a rejected
// completion by their log-probabilities without a reference, and add the loss of the chosen text.
#pragma once

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// Returns the objective. REQUIRES: settings of PreferenceKind::kCpo.
[[nodiscard]] ObjectivePtr cpo_objective(const config::PreferenceSettings& settings);

}  // namespace spillway::train
