// Process reward models: classify each step of a solution as right or wrong at the step's last token (Uesato et al.,
// 2022; Lightman et al., 2023).
#pragma once

#include "config/preference_settings.h"
#include "objectives/objective.h"

namespace spillway::train {

// Returns the objective: the mean cross-entropy of two classes over the labels of a micro-batch. REQUIRES: settings of
// PreferenceKind::kSteps, rows of data::Objective::kSteps, and a model whose head scores each token in two classes.
[[nodiscard]] ObjectivePtr steps_objective(const config::PreferenceSettings& settings);

}  // namespace spillway::train
