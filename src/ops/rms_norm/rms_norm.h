// Root-mean-square normalisation (Zhang and Sennrich, 2019), over rows or over groups within a row.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps), for each group of G elements of a row. x [T, D] f32 or
// bf16; w [G] f32 or bf16, where G divides D: G = D is a decoder's norm, G = head size the norm of queries and keys.
// Computed in f32, rounded once. Its second output, rstd f32 [T, D / G], is for the backward. `weight_shift`: y = x *
// rstd * (weight_shift + w), for weights that are kept as their difference from it (Gemma's, 1).
[[nodiscard]] ValueId rms_norm(Builder& builder, ValueId x, ValueId w, double eps, double weight_shift = 0);

}  // namespace spillway::ops
