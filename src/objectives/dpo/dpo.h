// Direct preference optimization and its relatives: a chosen completion against a rejected one of the same prompt, both
// measured by how much likelier the policy holds them than the reference.
#pragma once

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// REQUIRES: settings of PreferenceKind::kDpo.
[[nodiscard]] ObjectivePtr dpo_objective(const config::PreferenceSettings& settings);

}  // namespace spillway::train
