// AdEMAMix (Pagliardini et al., 2024) as bitsandbytes computes it: AdamW with a second, slow mean of gradients beside
// the first. Its schedules of alpha and beta3 are off by default.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg, exp_avg_slow and exp_avg_sq; takes the number of the step.
extern const OptimizerDef kAdemamix;
// Does the same with moments in 8 bits, by the rule of the GPU kernels; those of weights below min_8bit_size are f32,
// and updated as kAdemamix' are. The decay comes behind the step.
extern const OptimizerDef kAdemamix8bit;

}  // namespace spillway::ops
