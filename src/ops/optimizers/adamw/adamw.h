// The AdamW update (Loshchilov and Hutter, 2019) with torch.optim.AdamW's formula, in one pass over memory: clipping,
// decay, moments, master weight and working copy.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg and exp_avg_sq; takes beta1, beta2, eps, weight_decay and the number of the step.
extern const OptimizerDef kAdamw;
// The same update with the defaults of torch-optimi's AdamW.
extern const OptimizerDef kOptimiAdamw;

}  // namespace spillway::ops
