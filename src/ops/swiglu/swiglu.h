// The gated activations of feed-forwards (Shazeer, GLU Variants Improve Transformer, 2020): Llama's and Gemma's.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Each takes operands of one type, f32 or bf16, is computed in f32 and rounded once, and may take the place of either.
//
// Returns silu(gate) * up.
[[nodiscard]] ValueId swiglu(Builder& builder, ValueId gate, ValueId up);
// Returns gelu(gate) * up, by gelu's tanh (gelu_tanh of activation.h).
[[nodiscard]] ValueId geglu(Builder& builder, ValueId gate, ValueId up);

}  // namespace spillway::ops
