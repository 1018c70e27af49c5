// CAME (Luo et al., 2023) in the form of came-pytorch: Adafactor's update in a running mean, each element divided by a
// measure of how far updates have been from that mean.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg, and for a matrix exp_avg_sq_row, exp_avg_sq_col, exp_avg_res_row, exp_avg_res_col; for a vector
// exp_avg_sq beside exp_avg. Takes the number of the step. Updates whole matrices.
extern const OptimizerDef kCame;

}  // namespace spillway::ops
