// Muon (Jordan et al., 2024) in the form of torch.optim.Muon: the mean of a matrix' gradients, all its singular values
// brought near 1 by a few products. Uses AdamW for weights that are no matrix of a layer: embedding, head, norms,
// biases.
#pragma once

#include "ops/optimizers/optimizer.h"

namespace spillway::ops {

// Keeps momentum_buffer of matrices, whole, and AdamW's states of other weights; takes the number of the step.
extern const OptimizerDef kMuon;

}  // namespace spillway::ops
