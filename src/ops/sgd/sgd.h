// Stochastic gradient descent with torch.optim.SGD's formula, momentum if asked for.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
};

// The persistent values of one weight, and the numbers of the step.
struct SgdOperands {
  ValueId weight = kNone;         // f32, or a bf16 working copy of `master`
  ValueId master = kNone;         // f32; absent where the weight is f32 itself
  ValueId momentum = kNone;       // f32; absent without momentum
  ValueId gradient = kNone;       // f32 or bf16
  ValueId clip = kNone;           // f32 [1], multiplies the gradient; absent: 1
  ValueId learning_rate = kNone;  // f32 [1]
};

// Appends the update, whose outputs take the places of weight, master and momentum.
void sgd(Builder& builder, const SgdOperands& operands, const SgdOptions& options);

}  // namespace spillway::ops
