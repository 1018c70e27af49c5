// AdamW with moments in 8 bits, as bitsandbytes' GPU kernels compute it (kernels.cu,
// kOptimizerStatic8bit2StateBlockwise; Dettmers et al., arXiv 2110.02861): the update uses the moments before they are
// rounded to codes, and the decay comes after it.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg and exp_avg_sq as codes; those of weights below min_8bit_size are f32, and updated as AdamW's.
extern const OptimizerDef kAdamw8bit;

}  // namespace spillway::ops
