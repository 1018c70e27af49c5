// The norms of the rows of a weight with an adapter on it, as DoRA needs them (Liu et al., 2024), without forming the
// sum.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Returns the norms of the rows of W + scale B A, with W [O, I], A [r, I] and B [O, r]: f32 [O], no less than the
// smallest normal number.
//
//   |w + s b A|^2 = |w|^2 + 2 s b (A w' + s/2 A A' b')
//
// `squares` is |w|^2, f32 [O]; `overlap` is A W' + scale / 2 A A' B', f32 [r, O], two products and an addend; `b` is B,
// f32 or bf16. Sums are f64. Gradients treat the result as a constant.
[[nodiscard]] ValueId adapted_norm(Builder& builder, ValueId squares, ValueId overlap, ValueId b, double scale);

}  // namespace spillway::ops
