// Sets most of an optimizer's moments to zero, where an adapter begins anew (ReLoRA, Lialin et al., 2023): what is left
// of them still says how large the steps are.
#pragma once

#include <cstdint>
#include <string_view>

#include "config/config.h"
#include "job/training_graph.h"
#include "ops/optimizers/optimizer.h"
#include "runtime/value_store.h"

namespace spillway::train {

// Returns true if prune_moments() knows the moments of the optimizer: those of AdamW, as numbers or as bitsandbytes'
// codes.
[[nodiscard]] bool has_prunable_moments(const ops::OptimizerDef& optimizer);

// Prunes exp_avg and exp_avg_sq of the factors of an adapter, each tensor by itself. By magnitude, the elements stay
// that are larger than the quantile of the ratio, which lies between two elements as torch.quantile has it; otherwise
// each stays or goes by a number that depends on seed, step and its place alone. Moments in codes are judged by the
// values that they stand for, and become the code of zero. Holds one tensor in memory at a time.
// REQUIRES: has_prunable_moments() of the job's optimizer.
void prune_moments(const TrainingGraph& training, const config::RestartSettings& settings, uint64_t seed, int64_t step,
                   ValueStore& store);

}  // namespace spillway::train
