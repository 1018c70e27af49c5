// Layer normalisation (Ba et al., 2016): plain, with a weight and perhaps a bias, or with a scale and a shift for
// each sequence.
#pragma once

#include "ops/modulation/modulation.h"

namespace spillway::ops {

// Both compute for each row of x [T, D], f32 or bf16: normal = (x - mean) / sqrt(variance + eps), in f32 and rounded
// once together with the rest. The result may take the place of x. The second output of the operation, f32 [T, 2], the
// mean and 1 / sqrt(variance + eps) of each row, is for the backward.

// Returns normal * (weight_shift + weight) + bias: [D], both f32 or both bf16. The bias may be kNone (Cohere), or both:
// returns normal. The shift is for weights that are kept as their difference from it (Nemotron's, 1).
[[nodiscard]] ValueId layer_norm(Builder& builder, ValueId x, ValueId weight, ValueId bias, double eps,
                                 double weight_shift = 0);

// The parts of a modulation that scale and shift.
struct ScaleAndShift {
  int64_t scale = 1, shift = 0;
};

// Returns normal * (1 + scale) + shift, those of the token's sequence. Gradients are x's and the modulation's; the last
// is a sum over each sequence's tokens in an order that depends on the stream alone.
[[nodiscard]] ValueId modulated_layer_norm(Builder& builder, ValueId x, const Modulation& modulation,
                                           const ScaleAndShift& parts, double eps);

}  // namespace spillway::ops
