// Small functions of single numbers, of which the losses of preference objectives are composed: a few operations on one
// f32 number for each pair of sequences.
//
// Operands are f32 of any shape, axes included; a result has x's type. Each function is computed in f64 and rounded
// once, element by element, so that a row's bits do not depend on the others. They are differentiable unless said
// otherwise: their gradients are functions of this file. Results may take an operand's place.
#pragma once

#include "graph/builder.h"

namespace spillway::ops::pointwise {

// Returns factor * x + constant.
[[nodiscard]] ValueId affine(Builder& builder, ValueId x, double factor, double constant = 0);
// Returns the smaller of x and the limit; the gradient passes where x is the result, as in torch.clamp.
[[nodiscard]] ValueId min_with(Builder& builder, ValueId x, double limit);
// Returns the larger of x and the limit; the gradient passes where x is the result.
[[nodiscard]] ValueId max_with(Builder& builder, ValueId x, double limit);
// Returns max(x, 0), with no gradient at 0, as in torch.
[[nodiscard]] ValueId relu(Builder& builder, ValueId x);
// Returns e^x.
[[nodiscard]] ValueId exp(Builder& builder, ValueId x);
// Returns the natural logarithm.
[[nodiscard]] ValueId log(Builder& builder, ValueId x);
// Returns 1 / (1 + e^-x).
[[nodiscard]] ValueId sigmoid(Builder& builder, ValueId x);
// Returns log sigmoid(x), exact on both sides.
[[nodiscard]] ValueId log_sigmoid(Builder& builder, ValueId x);
// Returns log(1 - e^x), exact near 0 and far below, NaN above it (Maechler, Accurately Computing log(1 - exp(-|a|)),
// 2012).
[[nodiscard]] ValueId log1m_exp(Builder& builder, ValueId x);
// Returns x^2.
[[nodiscard]] ValueId square(Builder& builder, ValueId x);
// Returns cap * tanh(x / cap), which stays within the cap (Gemma 2's logits). REQUIRES: cap is above zero.
[[nodiscard]] ValueId soft_cap(Builder& builder, ValueId x, double cap);
// Returns x, as a constant to gradients.
[[nodiscard]] ValueId detach(Builder& builder, ValueId x);

// These take two numbers each. y has x's type, or it is f32 [1] and stands for as many equal numbers.
//
// Returns x + y.
[[nodiscard]] ValueId add(Builder& builder, ValueId x, ValueId y);
// Returns x - y.
[[nodiscard]] ValueId sub(Builder& builder, ValueId x, ValueId y);
// Returns x * y. A loss of one number may end in it, times its scale.
[[nodiscard]] ValueId mul(Builder& builder, ValueId x, ValueId y);
// Returns x / y.
[[nodiscard]] ValueId div(Builder& builder, ValueId x, ValueId y);
// Returns the larger one. The gradient passes to it; to x where they are equal.
[[nodiscard]] ValueId max(Builder& builder, ValueId x, ValueId y);
// Returns x where y is at most the limit, else 0. Not differentiable.
[[nodiscard]] ValueId where_below(Builder& builder, ValueId x, ValueId y, double limit);
// Returns x where y is at least the limit, else 0. Not differentiable.
[[nodiscard]] ValueId where_above(Builder& builder, ValueId x, ValueId y, double limit);

}  // namespace spillway::ops::pointwise
