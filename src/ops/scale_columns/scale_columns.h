// Multiplies each column of a matrix by a factor.
#pragma once

#include "graph/builder.h"

namespace spillway::ops {

struct ScaleColumnsOptions {
  double shift = 0;        // added to every factor
  ValueId bias = kNone;    // [N], f32 or bf16
  ValueId addend = kNone;  // of x's type; the result may take its place
};

// Returns x * (factor + shift) + bias + addend, of x's type, f32 or bf16 [T, N], computed in f32 and rounded once;
// factor is f32 with N numbers, [N] or a matrix's, or kNone for ones, which change no bit of x. May take the place of
// x. Gradients are those of x, the factor, the bias and the addend; the factor's is a sum over the rows in an order
// that depends on their number alone.
[[nodiscard]] ValueId scale_columns(Builder& builder, ValueId x, ValueId factor,
                                    const ScaleColumnsOptions& options = {});

}  // namespace spillway::ops
