// The norms of the rows of a weight with an adapter on it, as DoRA needs them (Liu et al., 2024), of which the sum is
// never made.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Of the rows of W + scale B A, with W [O, I], A [r, I] and B [O, r]: f32 [O], no less than the smallest normal number.
//
//   |w + s b A|^2 = |w|^2 + 2 s b (A w' + s/2 A A' b')
//
// `squares` is |w|^2, f32 [O]; `overlap` is A W' + scale / 2 A A' B', f32 [r, O], two products and an addend; `b` is B,
// f32 or bf16. Summed in f64. A constant to gradients.
[[nodiscard]] ValueId adapted_norm(Builder& builder, ValueId squares, ValueId overlap, ValueId b, double scale);

}  // namespace spillway::ops
