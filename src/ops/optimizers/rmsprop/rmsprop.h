// RMSprop (Hinton, 2012) with torch.optim.RMSprop's formula: a gradient divided by the root of the running mean of its
// square, less the square of its mean if centered; momentum behind that.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps square_avg, momentum_buffer with momentum and grad_avg if centered. The decay is part of the gradient.
extern const OptimizerDef kRmsprop;

}  // namespace spillway::ops
