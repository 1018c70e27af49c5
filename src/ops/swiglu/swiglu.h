// The gated activation of Llama's feed-forward (Shazeer, GLU Variants Improve Transformer, 2020).
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// silu(gate) * up, of one type, f32 or bf16; computed in f32 and rounded once. May take the place of either.
[[nodiscard]] ValueId swiglu(Builder& builder, ValueId gate, ValueId up);

}  // namespace spillway::ops
