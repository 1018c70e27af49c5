// REINFORCE leave-one-out (Ahmadian et al., 2024).
#pragma once

#include "objectives/online/online.h"

namespace spillway::train {

// Returns the objective. REQUIRES: settings of OnlineKind::kRloo.
[[nodiscard]] std::shared_ptr<const OnlineObjective> rloo_objective(const config::OnlineSettings& settings);

}  // namespace spillway::train
