// The operands of grouped_linear, and the rows that it multiplies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "backend/kernel.h"
#include "base/math.h"
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

// Returns the rows up to which an expert's product is left to one thread of the CPU, of `rows` that experts have
// together: so few that threads which take one expert after the other end at about the same time.
[[nodiscard]] inline int64_t rows_for_one_thread(int64_t rows, int threads) {
  return threads == 1 ? rows : div_ceil(rows, int64_t{4} * threads);
}

// The workspace of products of experts on the CPU, of which threads make some each for itself, others together.
struct ExpertWorkspace {
  int64_t alone = 0;  // bytes for one thread
  int64_t bytes = 0;  // of all

  // product_bytes(rows, threads) returns those of a product of so many rows; experts have `rows` together at most.
  template <typename ProductBytes>
  ExpertWorkspace(int64_t rows, int threads, const ProductBytes& product_bytes)
      : alone(product_bytes(rows_for_one_thread(rows, threads), 1)),
        bytes(std::max(product_bytes(rows, threads), threads * alone)) {}
};

// Returns that of the products of `x`, i.e. rows of pairs, with matrices of type `weight`. `product_bytes` is one of
// matmul_workspace_bytes() and decoding_matmul_workspace_bytes().
[[nodiscard]] inline ExpertWorkspace workspace_of_rows(
    const Sizes& sizes, const Shape& x, DType dtype, DType weight, int threads,
    decltype(&cpu::matmul_workspace_bytes) product_bytes = cpu::matmul_workspace_bytes) {
  return {x[0] * sizes.pairs, threads,
          [&](int64_t rows, int some) { return product_bytes(product_of_rows(sizes, rows), dtype, weight, some); }};
}

}  // namespace spillway::ops::grouped_linear_op
