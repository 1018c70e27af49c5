// Stochastic gradient descent with torch.optim.SGD's formula, optionally with momentum, dampening and Nesterov's step.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps momentum_buffer if there is momentum; takes the number of the step. The decay is part of the gradient.
extern const OptimizerDef kSgd;

}  // namespace spillway::ops
