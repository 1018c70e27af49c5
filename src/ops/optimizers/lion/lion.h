// The Lion update (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023) with the formula that lion-pytorch
// and bitsandbytes share: the sign of a mean of gradients, one state, decay apart from it.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg; takes beta1, beta2 and weight_decay.
extern const OptimizerDef kLion;

}  // namespace spillway::ops
