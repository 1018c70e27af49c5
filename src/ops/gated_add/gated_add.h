// Adds a residual with a gate for each sequence.
#pragma once

#include "ops/modulation/modulation.h"

namespace spillway::ops {

// Returns h + x * gate, of one type, f32 or bf16 [T, D], computed in f32 and rounded once: the gate of a token's
// sequence is part `part` of the modulation. May take the place of h or x. Gradients are h's, x's and the modulation's;
// the last is a sum over each sequence's tokens in an order that depends on the stream alone.
[[nodiscard]] ValueId gated_add(Builder& builder, ValueId h, ValueId x, const Modulation& modulation, int64_t part);

}  // namespace spillway::ops
