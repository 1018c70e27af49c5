// Kahneman-Tversky optimization (Ethayarajh et al., 2024): single completions that are wanted or not, measured against
// the reference and against how far the policy is from it on completions that do not belong to their prompts.
#pragma once

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// `sequence_len` is what sequences of mismatched completions are cut to. REQUIRES: settings of PreferenceKind::kKto.
[[nodiscard]] ObjectivePtr kto_objective(const config::PreferenceSettings& settings, int64_t sequence_len);

}  // namespace spillway::train
