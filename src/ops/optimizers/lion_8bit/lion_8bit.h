// Lion with a moment in 8 bits as bitsandbytes' GPU kernels compute it (lion_8bit; Dettmers et al., 8-bit Optimizers
// via Block-wise Quantization, 2022): Lion's formula over moments that are codes of 256 elements with a scale.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps exp_avg as codes; that of weights below min_8bit_size is f32, and updated as Lion's.
extern const OptimizerDef kLion8bit;

}  // namespace spillway::ops
