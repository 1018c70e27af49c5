// The product with a weight that is kept as codes. The weight never exists as a whole: the kernels decode a tile at a
// time.
#pragma once

#include <optional>
#include <span>

#include "graph/builder.h"
#include "ops/matmul/matmul.h"
#include "ops/quantised_matmul/quantised_weight.h"

namespace spillway::ops {

// A weight [rows, columns] in a graph.
struct QuantisedOperand {
  std::span<const ValueId> parts;  // as quantised_parts() lists them
  int64_t rows = 0, columns = 0;
  QuantisedFormat format;
};

struct QuantisedMatmulOptions {
  bool transpose = true;  // of the weight: x is [T, columns], the result [T, rows]; else the other way round
  double alpha = 1;
  ValueId addend = kNone;          // [T, N], f32 or bf16; the product may take its place
  ValueId bias = kNone;            // [N], f32 or bf16
  std::optional<DType> out_dtype;  // f32 or bf16; that of x where not given
  ProductTail tail;
};

// Returns alpha * x op(W) + tail + bias + addend, as ops::matmul() of x, f32 or bf16, and the decoded weight in the
// dtype of x: the bits are the same. The weight has no gradient.
[[nodiscard]] ValueId quantised_matmul(Builder& builder, ValueId x, const QuantisedOperand& weight,
                                       const QuantisedMatmulOptions& options = {});

}  // namespace spillway::ops
