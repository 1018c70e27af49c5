// xIELU, an activation with two trained numbers (Huang and Schlag, Deriving Activation Functions via Integration,
// 2024).
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// The numbers of an activation, each of shape [1]: those that are trained, f32 or bf16 and alike, and those that are
// not, f32, which are constants to gradients.
struct XieluNumbers {
  ValueId alpha_p = kNone, alpha_n = kNone;
  ValueId beta = kNone, eps = kNone;
};

// Returns, for x [T, N] of f32 or bf16, elements
//   p x^2 + beta x                            where x > 0, p = softplus(alpha_p)
//   n (expm1(min(x, eps)) - x) + beta x       elsewhere, n = beta + softplus(alpha_n)
// as transformers' XIELUActivation has them, computed in f32 and rounded once. May take the place of x. Gradients are
// those of x, which at eps is that of the right side, and of the trained numbers: sums over the elements, in f64 over
// the rows' f32 sums, in an order that depends on T and N alone.
[[nodiscard]] ValueId xielu(Builder& builder, ValueId x, const XieluNumbers& numbers);

}  // namespace spillway::ops
