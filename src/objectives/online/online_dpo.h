// Online DPO: TRL 1.16's OnlineDPOTrainer (Guo et al., 2024, "Direct Language Model Alignment from Online AI
// Feedback").
#pragma once

#include "objectives/online/online.h"

namespace spillway::train {

[[nodiscard]] std::shared_ptr<const OnlineObjective> online_dpo_objective(const config::OnlineSettings& settings);

}  // namespace spillway::train
