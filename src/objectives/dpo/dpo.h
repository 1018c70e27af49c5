// Direct preference optimization and its variants: compare a chosen with a rejected completion of the same prompt by
// how much likelier the policy makes each of them than the reference does.
#pragma once

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// Returns the objective. REQUIRES: settings of PreferenceKind::kDpo.
[[nodiscard]] ObjectivePtr dpo_objective(const config::PreferenceSettings& settings);

}  // namespace spillway::train
