// The AdamW update (Loshchilov and Hutter, 2019) with torch.optim.AdamW's formula, in one pass over memory: clipping,
// decay, moments, master weight and working copy.
#pragma once

#include <optional>

#include "graph/builder.h"
#include "ops/row_slice.h"

namespace spillway::ops {

struct AdamwOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

// The persistent values of one weight, and the numbers of the step.
struct AdamwOperands {
  ValueId weight = kNone;         // f32, or a bf16 working copy of `master`
  ValueId master = kNone;         // f32, the rows of the slice; absent where the weight is f32 itself
  ValueId m = kNone, v = kNone;   // f32, the rows of the slice
  ValueId gradient = kNone;       // f32 or bf16, of the whole weight
  ValueId clip = kNone;           // f32 [1], multiplies the gradient; absent: 1
  ValueId learning_rate = kNone;  // f32 [1]
  ValueId step = kNone;           // i32 [1], 1 in the first step
  std::optional<RowSlice> slice;  // what to update of the weight; absent: all
};

// Appends the update, whose outputs take the places of weight, master, m and v. Returns the next version of the weight,
// which the update of another slice takes.
ValueId adamw(Builder& builder, const AdamwOperands& operands, const AdamwOptions& options);

}  // namespace spillway::ops
