// StableAdamW (Wortsman et al., 2023) as torch-optimi computes it: AdamW whose step of a whole weight is made shorter
// where its gradients are larger than their second moments say.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg and exp_avg_sq, each a mean that needs no correction; takes the number of the step. Of whole weights.
extern const OptimizerDef kStableAdamw;

}  // namespace spillway::ops
