// Stochastic gradient descent with torch.optim.SGD's formula, momentum if asked for.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps momentum_buffer where there is momentum; takes momentum and weight_decay.
extern const OptimizerDef kSgd;

}  // namespace spillway::ops
