// Adagrad (Duchi et al., 2011) with torch.optim.Adagrad's formula: a gradient divided by the root of the sum of all its
// squares, at a rate that falls with the steps.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps sum; takes the number of the step. The decay is part of the gradient.
extern const OptimizerDef kAdagrad;

}  // namespace spillway::ops
