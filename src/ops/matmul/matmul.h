// The matrix product, fused with transposition, a factor, a bias, an addend and a second, thin product.
#pragma once

#include <optional>

#include "graph/builder.h"

namespace spillway::ops {

// A second product that joins the sums of a first one: alpha * op(a) op(b), stored and transposed as its factors are,
// with a short inner length. It may then cost little beside the first, whose result need not be read and written again:
// the two factors of LoRA and their gradients. Both have the type of the first a.
struct ProductTail {
  ValueId a = kNone, b = kNone;
  double alpha = 1;
};

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;
  double alpha = 1;
  ValueId addend = kNone;          // [M, N], f32 or bf16; the product may take its place
  ValueId bias = kNone;            // [N], f32 or bf16, for every row; not where tokens are contracted
  std::optional<DType> out_dtype;  // f32 or bf16; a's where not given
  ProductTail tail;
};

// Returns alpha * op(a) op(b) + tail + bias + addend, [M, N]. a is [M, K] (or [K, M] transposed), b is [K, N] (or
// [N, K]), each f32 or bf16; sums are f32 and rounded once (on a GPU, once more behind the tail). Rows of the result
// are per token if those of a are; a product of two transposed streams ([T, M] and [T, N]) contracts over the tokens.
[[nodiscard]] ValueId matmul(Builder& builder, ValueId a, ValueId b, const MatmulOptions& options = {});

// The optional addends and type of a linear layer.
struct LinearOptions {
  ValueId addend = kNone;          // [T, O]
  ValueId bias = kNone;            // [O]
  std::optional<DType> out_dtype;  // that of x if not given
  ProductTail tail;                // [T, R] and [O, R]
};

// Returns x [T, I] times the transpose of w [O, I].
[[nodiscard]] ValueId linear(Builder& builder, ValueId x, ValueId w, const LinearOptions& options = {});

}  // namespace spillway::ops
