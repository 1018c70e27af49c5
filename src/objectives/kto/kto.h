// Kahneman-Tversky optimization (Ethayarajh et al., 2024): single completions that are desirable or not, compared with
// the reference and with the policy's divergence from it on completions of other prompts.
#pragma once

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// Returns the objective. `sequence_len` is the length to which sequences of mismatched completions are cut. REQUIRES:
// settings of PreferenceKind::kKto.
[[nodiscard]] ObjectivePtr kto_objective(const config::PreferenceSettings& settings, int64_t sequence_len);

}  // namespace spillway::train
