// The objectives of preference training, by their settings.
#pragma once

#include <cstdint>
#include <optional>

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// `sequence_len` is that of the longest sequence, `padding` the token of that purpose, if there is one.
[[nodiscard]] ObjectivePtr preference_objective(const config::PreferenceSettings& settings, int64_t sequence_len,
                                                std::optional<int32_t> padding);

}  // namespace spillway::train
