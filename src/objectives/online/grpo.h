// Group relative policy optimization (Shao et al., 2024) and the losses that came of it.
#pragma once

#include "objectives/online/online.h"

namespace spillway::train {

// REQUIRES: settings of OnlineKind::kGrpo; steps of `accumulation` micro-batches.
[[nodiscard]] std::shared_ptr<const OnlineObjective> grpo_objective(const config::OnlineSettings& settings,
                                                                    bool has_old_logps, int64_t accumulation);

}  // namespace spillway::train
