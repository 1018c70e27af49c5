// Adafactor (Shazeer and Stern, 2018) as transformers runs it, with scale_parameter and relative_step off: gradients
// over the root of a mean of their squares, of which a matrix keeps the means of rows and columns alone.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg_sq_row and exp_avg_sq_col, or exp_avg_sq of a vector; takes the number of the step. Of whole matrices.
extern const OptimizerDef kAdafactor;

}  // namespace spillway::ops
