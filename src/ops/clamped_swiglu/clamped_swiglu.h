// gpt-oss's gated activation, of gates and ups that are neighbours.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

struct ClampedSwigluOptions {
  double alpha = 1.702;  // of the gate in the sigmoid
  double limit = 7;      // of gates from above, and of ups from both sides
};

// Returns (u + 1) * g * sigmoid(alpha * g) of x [T, 2 N], f32 or bf16, whose numbers 2 i and 2 i + 1 are a gate, g =
// min(gate, limit), and its up, u within +-limit: [T, N], computed in f32 and rounded once. What is clamped has no
// gradient.
//
// Source: OpenAI, gpt-oss, 2025.
[[nodiscard]] ValueId clamped_swiglu(Builder& builder, ValueId x, const ClampedSwigluOptions& options = {});

}  // namespace spillway::ops
