// Group relative policy optimization (Shao et al., 2024) and the losses derived from it.
#pragma once

#include "objectives/online/online.h"

namespace spillway::train {

// Returns the objective for steps of `accumulation` micro-batches. REQUIRES: settings of OnlineKind::kGrpo.
[[nodiscard]] std::shared_ptr<const OnlineObjective> grpo_objective(const config::OnlineSettings& settings,
                                                                    bool has_old_logps, int64_t accumulation);

}  // namespace spillway::train
