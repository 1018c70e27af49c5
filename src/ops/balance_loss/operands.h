// The operands of the operations of this folder.
#pragma once

#include "tensor/view.h"

namespace spillway::ops::balance_loss_op {

// The inputs of router_load.
enum LoadInput : int { kLogits, kOffsets };
// The inputs of its gradient behind kLogits; the addend may be absent.
enum LoadGradInput : int { kDLoad = 1, kAddend };
// The inputs of balance_loss and of its gradient.
enum Input : int { kLoad, kWeight };
// The inputs of largest_load and reached_experts; the number before may be absent.
enum RunningInput : int { kExpertOffsets, kBefore };

// The halves of a load.
struct Load {
  float *pairs, *probabilities;  // [E]

  explicit Load(const TensorView& load) : pairs(load.as<float>()), probabilities(pairs + load.shape[1]) {}
};

}  // namespace spillway::ops::balance_loss_op
