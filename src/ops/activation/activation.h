// Activations of one number: silu, gelu, exact or by its tanh, and the square of relu.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

// Each result has x's type, f32 or bf16 of any shape, is computed in f32 and rounded once, and may take the place of x.
//
// Returns x * sigmoid(x).
[[nodiscard]] ValueId silu(Builder& builder, ValueId x);
// Returns x * Phi(x), where Phi is the distribution function of the normal distribution (Hendrycks and Gimpel, 2016).
[[nodiscard]] ValueId gelu(Builder& builder, ValueId x);
// Returns 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), their approximation: torch's gelu of approximate="tanh".
[[nodiscard]] ValueId gelu_tanh(Builder& builder, ValueId x);
// Returns max(x, 0)^2 (So et al., Primer, 2021).
[[nodiscard]] ValueId relu_squared(Builder& builder, ValueId x);

}  // namespace spillway::ops
