// Knowledge distillation: a model of text learns the next-token distributions of a frozen teacher over the same tokens.
#pragma once

#include "config/config.h"
#include "objectives/objective.h"

namespace spillway::train {

// Returns the objective. Its pass "teacher" is one of the reference, which must be a model of text with the same
// vocabulary.
[[nodiscard]] ObjectivePtr distillation_objective(const config::DistillationSettings& settings);

}  // namespace spillway::train
