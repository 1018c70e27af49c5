// The operands of grouped_linear, and the rows that it multiplies.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/kernel.h"
#include "graph/operation.h"
#include "ops/matmul/cpu/product.h"

namespace spillway::ops::grouped_linear_op {

// The inputs of grouped_linear; the addend may be absent, and the weights of the other experts follow kFirstWeight.
enum Input : int { kX, kOffsets, kAddend, kFirstWeight };
// The inputs of the gradient of a weight; the addend may be absent.
enum GradInput : int { kGradX, kDy, kGradOffsets, kGradAddend };

// A product of rows [in] with matrices, as attributes and shapes say it.
struct Sizes {
  int64_t pairs = 0;        // of a token
  int64_t in = 0, out = 0;  // numbers of a row
  int64_t first = 0;        // the expert of the first matrix
  bool transposed = false;  // matrices are [out, in], else [in, out]
};
[[nodiscard]] Sizes sizes_of(const Shape& x, const Shape& weight, const Attributes& attributes);

// Return the result's type and the cost of a product with the weights of some experts, of the type `weight`. The first
// throws InputError "[op] ...".
[[nodiscard]] ValueType infer_rows(std::string_view op, TypeList inputs, const ValueType& weight, int64_t experts,
                                   const Attributes& attributes);
[[nodiscard]] Cost cost_of_rows(TypeList inputs, TypeList outputs, const ValueType& weight, int64_t experts,
                                const Attributes& attributes);

// Returns the condition under which the weights of an expert are read, that many experts behind the operation's first.
[[nodiscard]] Guard guard_of_expert(TypeList inputs, const Attributes& attributes, int64_t expert);

// Returns the shape of a product of `rows` rows.
[[nodiscard]] inline cpu::MatmulShape product_of_rows(const Sizes& sizes, int64_t rows) {
  return {.m = rows, .n = sizes.out, .k = sizes.in, .transpose_b = sizes.transposed};
}
// Returns the shape of the product of rows that is the gradient of a weight [out, in].
[[nodiscard]] inline cpu::MatmulShape product_over_rows(const Sizes& sizes, int64_t rows) {
  return {.m = sizes.out, .n = sizes.in, .k = rows, .transpose_a = true};
}

}  // namespace spillway::ops::grouped_linear_op
