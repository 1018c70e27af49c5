// Stochastic gradient descent with torch.optim.SGD's formula, momentum if asked for.
#pragma once

#include <optional>

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
};

// The persistent values of one weight, and the numbers of the step.
struct SgdOperands {
  ValueId weight = kNone;         // f32, or a bf16 working copy of `master`
  ValueId master = kNone;         // f32, the rows of the slice; absent where the weight is f32 itself
  ValueId momentum = kNone;       // f32, the rows of the slice; absent without momentum
  ValueId gradient = kNone;       // f32 or bf16, of the whole weight
  ValueId clip = kNone;           // f32 [1], multiplies the gradient; absent: 1
  ValueId learning_rate = kNone;  // f32 [1]
  std::optional<RowSlice> slice;  // what to update of the weight; absent: all
};

// Appends the update, whose outputs take the places of weight, master and momentum. Returns the next version of the
// weight, which the update of another slice takes.
ValueId sgd(Builder& builder, const SgdOperands& operands, const SgdOptions& options);

}  // namespace spillway::ops
