// AdamW with moments in 8 or 4 bits as torchao computes it (torchao/optim/adam.py, quant_utils.py; 4 bits: Li et al.,
// arXiv 2309.01507): AdamW's formula in f32, over blocks of 256 for both, as transformers passes.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Both keep exp_avg and exp_avg_sq as codes; those of weights below min_8bit_size, or whose elements are no whole
// blocks, are f32, and updated as AdamW's.
extern const OptimizerDef kAdamwTorchao8, kAdamwTorchao4;

}  // namespace spillway::ops
