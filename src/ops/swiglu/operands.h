// The operands of the gated activations and of their gradients.
#pragma once

namespace spillway::ops::swiglu_op {

// An activation has the first two, its gradient all of them.
enum Input : int { kGate, kUp, kDy };

}  // namespace spillway::ops::swiglu_op
