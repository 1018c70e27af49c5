// The gated linear units of feed-forwards and of other branches (Shazeer, GLU Variants Improve Transformer, 2020).
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Each takes operands of one type, f32 or bf16, is computed in f32 and rounded once, and may take the place of either.
//
// Returns silu(gate) * up.
[[nodiscard]] ValueId swiglu(Builder& builder, ValueId gate, ValueId up);
// Returns gelu(gate) * up, by gelu's tanh (gelu_tanh of activation.h).
[[nodiscard]] ValueId geglu(Builder& builder, ValueId gate, ValueId up);
// Returns sigmoid(gate) * up.
[[nodiscard]] ValueId glu(Builder& builder, ValueId gate, ValueId up);
// Returns gate * up.
[[nodiscard]] ValueId bilinear(Builder& builder, ValueId gate, ValueId up);

}  // namespace spillway::ops
