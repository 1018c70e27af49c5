// The matrix product, with what is fused into it: transposition, a factor and an addend.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace spillway::ops {

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1;
  ValueId addend = kNone;          // [M, N], f32 or bf16; the product may take its place
  std::optional<DType> out_dtype;  // f32 or bf16; a's where not given
};

// alpha * op(a) op(b) + addend, [M, N]. a is [M, K] (or [K, M] transposed), b is [K, N] (or [N, K]), each f32 or bf16;
// sums are f32. Rows of the result are per token where those of a are; a product of two transposed streams
// ([T, M] and [T, N]) contracts over the tokens.
[[nodiscard]] ValueId matmul(Builder& builder, ValueId a, ValueId b, const MatmulOptions& options = {});

// x [T, I] times the transpose of w [O, I], plus addend [T, O]: a linear layer without bias, in the dtype of x.
[[nodiscard]] ValueId linear(Builder& builder, ValueId x, ValueId w, ValueId addend = kNone);

}  // namespace spillway::ops
