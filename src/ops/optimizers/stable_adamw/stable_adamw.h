// StableAdamW (Wortsman et al., 2023) in the form of torch-optimi: AdamW whose step of a whole weight is made shorter
// if its gradients are large beside their second moments.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg and exp_avg_sq, each a mean that needs no correction; takes the number of the step. Updates whole
// weights.
extern const OptimizerDef kStableAdamw;

}  // namespace spillway::ops
