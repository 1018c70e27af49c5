// Creates the objectives of preference training from their settings.
#pragma once

#include <cstdint>
#include <optional>

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// Returns the objective. `sequence_len` is the length of the longest sequence; `padding` is the padding token, if there
// is one.
[[nodiscard]] ObjectivePtr preference_objective(const config::PreferenceSettings& settings, int64_t sequence_len,
                                                std::optional<int32_t> padding);

}  // namespace spillway::train
