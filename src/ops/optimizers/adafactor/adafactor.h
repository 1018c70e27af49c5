// Adafactor (Shazeer and Stern, 2018) in transformers' form, with scale_parameter and relative_step off: gradients over
// the root of a mean of their squares, of which only the means of rows and columns are kept for a matrix.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg_sq_row and exp_avg_sq_col, or exp_avg_sq for a vector; takes the number of the step. Updates whole
// matrices.
extern const OptimizerDef kAdafactor;

}  // namespace spillway::ops
