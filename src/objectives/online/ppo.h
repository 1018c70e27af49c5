// Proximal policy optimization (Schulman et al., 2017; of language models Ziegler et al., 2019): TRL 1.10's PPOTrainer.
#pragma once

#include "objectives/online/online.h"

namespace spillway::train {

// Its loss reads the job's value model. REQUIRES: settings of OnlineKind::kPpo; updates of `accumulation`
// micro-batches.
[[nodiscard]] std::shared_ptr<const OnlineObjective> ppo_objective(const config::OnlineSettings& settings,
                                                                   int64_t accumulation);

}  // namespace spillway::train
