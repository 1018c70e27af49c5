#include "ops/matmul/matmul.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "base/index.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Computes alpha op(a) op(b) + addend. `n` is fixed; sizes that tokens may change are found from the inputs.
Numbers reference_product(const std::vector<Numbers>& in, int64_t m, int64_t n, int64_t k,
                          const ops::MatmulOptions& options) {
  Numbers out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        sum += nth(in[0], options.transpose_a ? l * m + i : i * k + l) *
               nth(in[1], options.transpose_b ? j * k + l : l * n + j);
      }
      const auto at = static_cast<size_t>(i * n + j);
      out[at] = options.alpha * sum + (in.size() > 2 ? in[2][at] : 0);
    }
  }
  return out;
}

Shape stored(int64_t rows, int64_t columns, bool transposed) {
  return transposed ? Shape{columns, rows} : Shape{rows, columns};
}

}  // namespace

TEST_CASE("matmul and its gradients agree with float64 for every transposition") {
  constexpr int64_t m = 6, n = 19, k = 23;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (int which = 0; which < 4; ++which) {
      CAPTURE(which);
      const ops::MatmulOptions options{
          .transpose_a = which % 2 == 1, .transpose_b = which >= 2, .alpha = which == 0 ? 1.0 : 0.75};
      const AxisId axis = options.transpose_a ? kNoAxis : kTokenAxis;
      check_operation({.tokens = m,
                       .inputs = {{{dtype, stored(m, k, options.transpose_a), axis}, random_numbers(m * k, 1)},
                                  {{dtype, stored(k, n, options.transpose_b)}, random_numbers(k * n, 2)},
                                  {{dtype, {m, n}, axis}, random_numbers(m * n, 3)}},
                       .build =
                           [&](Builder& b, const std::vector<ValueId>& in) {
                             ops::MatmulOptions with_addend = options;
                             with_addend.addend = in[2];
                             return ops::matmul(b, in[0], in[1], with_addend);
                           },
                       .reference =
                           [&](const std::vector<Numbers>& in) {
                             return reference_product(in, static_cast<int64_t>(in[0].size()) / k, n, k, options);
                           }});
    }
  }
}

TEST_CASE("a tail joins a product's sums, and its factors have gradients, for every transposition") {
  constexpr int64_t m = 6, n = 19, k = 23, r = 5;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (int which = 0; which < 4; ++which) {
      CAPTURE(which);
      const ops::MatmulOptions options{.transpose_a = which % 2 == 1, .transpose_b = which >= 2};
      const AxisId axis = options.transpose_a ? kNoAxis : kTokenAxis;
      check_operation({.tokens = m,
                       .inputs = {{{dtype, stored(m, k, options.transpose_a), axis}, random_numbers(m * k, 1)},
                                  {{dtype, stored(k, n, options.transpose_b)}, random_numbers(k * n, 2)},
                                  {{dtype, {m, n}, axis}, random_numbers(m * n, 3)},
                                  {{dtype, stored(m, r, options.transpose_a), axis}, random_numbers(m * r, 4)},
                                  {{dtype, stored(r, n, options.transpose_b)}, random_numbers(r * n, 5)}},
                       .build =
                           [&](Builder& b, const std::vector<ValueId>& in) {
                             ops::MatmulOptions all = options;
                             all.addend = in[2];
                             all.tail = {.a = in[3], .b = in[4], .alpha = 0.5};
                             return ops::matmul(b, in[0], in[1], all);
                           },
                       .reference =
                           [&](const std::vector<Numbers>& in) {
                             const int64_t rows = std::ssize(in[0]) / k;
                             ops::MatmulOptions of_tail = options;
                             of_tail.alpha = 0.5;
                             const Numbers tail = reference_product({in[3], in[4], in[2]}, rows, n, r, of_tail);
                             return reference_product({in[0], in[1], tail}, rows, n, k, options);
                           },
                       .tolerance = dtype == DType::kBF16 ? 4e-3 : 2e-6});  // a GPU rounds behind the tail, too
    }
  }
}

namespace {

// Appends x W' + 1.5 (x A') B', as a layer with an adapter is.
ValueId adapted_layer(Builder& b, const std::vector<ValueId>& in) {
  const ValueId z = ops::linear(b, in[0], in[2]);
  return ops::linear(b, in[0], in[1], {.tail = {.a = z, .b = in[3], .alpha = 1.5}});
}

Numbers reference_layer(const std::vector<Numbers>& in, int64_t out, int64_t width, int64_t r) {
  const int64_t rows = std::ssize(in[0]) / width;
  const ops::MatmulOptions plain{.transpose_b = true}, scaled{.transpose_b = true, .alpha = 1.5};
  const Numbers z = reference_product({in[0], in[2]}, rows, r, width, plain);
  const Numbers update = reference_product({z, in[3]}, rows, out, r, scaled);
  return reference_product({in[0], in[1], update}, rows, out, width, plain);
}

}  // namespace

TEST_CASE("the gradient of what a layer and its adapter read is one product, and agrees with float64") {
  constexpr int64_t tokens = 7, width = 21, r = 4;
  const std::vector<OperandCase> inputs = {
      {{DType::kF32, {tokens, width}, kTokenAxis}, random_numbers(tokens * width, 1)},
      {{DType::kF32, {width, width}}, random_numbers(width * width, 2), false},
      {{DType::kF32, {r, width}}, random_numbers(r * width, 3)},
      {{DType::kF32, {width, r}}, random_numbers(width * r, 4)}};
  // The input of the second layer has the first one's result, so that gradients flow through both.
  check_operation({.tokens = tokens,
                   .inputs = inputs,
                   .build =
                       [](Builder& b, std::vector<ValueId> in) {
                         in[0] = adapted_layer(b, in);
                         return adapted_layer(b, in);
                       },
                   .reference =
                       [](std::vector<Numbers> in) {
                         in[0] = reference_layer(in, width, width, r);
                         return reference_layer(in, width, width, r);
                       }});

  Graph graph;
  Builder b(graph);
  graph.axes = {{"tokens", tokens}};
  std::vector<ValueId> in;
  for (const OperandCase& one : inputs)
    in.push_back(
        b.input(std::to_string(in.size()), one.type, in.empty() ? ValueKind::kBatch : ValueKind::kTrainableWeight));
  std::vector<ValueId> second = in;
  second[0] = adapted_layer(b, in);
  const ValueId y = adapted_layer(b, second);
  const ValueId loss = weighted_sum(b, y, b.input("c", b.type(y), ValueKind::kBatch));
  std::vector<WeightGradient> gradients = {{.weight = in[2]}, {.weight = in[3]}};
  append_backward(b, loss, gradients, ops::add);
  int products_of_width = 0;
  for (const Operation& op : graph.ops) {
    const ValueType& out = graph.value(op.outputs[0]).type;
    if (op.def->name == "matmul" && out.shape == Shape{tokens, width}) ++products_of_width;
  }
  CHECK(products_of_width == 3);  // two layers, and the gradient between them
}

TEST_CASE("bias and addend of any type go into a product's sums before they are rounded") {
  constexpr int64_t tokens = 4, n = 19, k = 5;
  for (uint32_t bits = 0; bits < 40; ++bits) {
    CAPTURE(bits);
    const auto type = [&](int i) { return (bits >> i & 1) != 0 ? DType::kBF16 : DType::kF32; };
    const bool has_addend = bits < 32;
    const DType out = has_addend ? type(4) : type(2);
    OperationCase test{.tokens = tokens,
                       .inputs = {{{type(0), {tokens, k}, kTokenAxis}, random_numbers(tokens * k, 1)},
                                  {{type(1), {n, k}}, random_numbers(n * k, 2)},
                                  {{type(2), {n}}, random_numbers(n, 3)}},
                       .build =
                           [=](Builder& b, const std::vector<ValueId>& in) {
                             return ops::matmul(b, in[0], in[1],
                                                {.transpose_b = true,
                                                 .alpha = 0.75,
                                                 .addend = has_addend ? in[3] : kNone,
                                                 .bias = in[2],
                                                 .out_dtype = out});
                           },
                       .reference =
                           [=](const std::vector<Numbers>& in) {
                             std::vector<Numbers> product = {in[0], in[1]};
                             if (has_addend) product.push_back(in[3]);
                             Numbers sums = reference_product(product, static_cast<int64_t>(in[0].size()) / k, n, k,
                                                              {.transpose_b = true, .alpha = 0.75});
                             for (size_t i = 0; i < sums.size(); ++i) sums[i] += in[2][i % n];
                             return sums;
                           }};
    if (has_addend) test.inputs.push_back({{type(3), {tokens, n}, kTokenAxis}, random_numbers(tokens * n, 4)});
    check_operation(test);
  }
}

TEST_CASE("a product of two streams contracts over the tokens, however few there are") {
  constexpr int64_t tokens = 9, m = 4, n = 5;
  check_operation(
      {.tokens = tokens,
       .inputs = {{{DType::kF32, {tokens, m}, kTokenAxis}, random_numbers(tokens * m, 1)},
                  {{DType::kF32, {tokens, n}, kTokenAxis}, random_numbers(tokens * n, 2)}},
       .build = [](Builder& b,
                   const std::vector<ValueId>& in) { return ops::matmul(b, in[0], in[1], {.transpose_a = true}); },
       .reference =
           [](const std::vector<Numbers>& in) {
             return reference_product(in, m, n, static_cast<int64_t>(in[0].size()) / m, {.transpose_a = true});
           }});
}

TEST_CASE("a product that contracts over the tokens is not per token") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kBF16, {8, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId w = b.input("w", {DType::kBF16, {5, 3}}, ValueKind::kBatch);
  CHECK(b.type(ops::linear(b, x, w)) == ValueType{DType::kBF16, {8, 5}, kTokenAxis});
  CHECK(b.type(ops::matmul(b, x, x, {.transpose_a = true, .out_dtype = DType::kF32})) ==
        ValueType{DType::kF32, {3, 3}});
}

TEST_CASE("matmul refuses operands that do not fit") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {8, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId w = b.input("w", {DType::kF32, {5, 4}}, ValueKind::kBatch);
  const ValueId n = b.input("n", {DType::kI32, {5, 3}}, ValueKind::kBatch);
  const ValueId v = b.input("v", {DType::kF32, {3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::linear(b, x, w),
                    "[matmul] expected 3 of a and b to be contracted, got f32[8t, 3] and f32[5, 4] transposed; "
                    "check the model's sizes");
  CHECK_THROWS_WITH((void)ops::linear(b, x, n), "[matmul] expected b in f32 or bf16, got i32[5, 3]; cast it");
  CHECK_THROWS_WITH((void)ops::matmul(b, x, v), "[matmul] expected b with 2 axes, got f32[3]; reshape it");
  CHECK_THROWS_WITH((void)ops::matmul(b, x, x, {.transpose_b = true}),
                    "[matmul] expected tokens as rows of a or contracted in both, got f32[8t, 3] and "
                    "f32[8t, 3] transposed; transpose one");
  const ValueId w3 = b.input("w3", {DType::kF32, {5, 3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::linear(b, x, w3, {.bias = v}),
                    "[matmul] expected bias as f32[5], got f32[3]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::matmul(b, x, x, {.transpose_a = true, .bias = v}),
                    "[matmul] expected no bias where tokens are contracted, got f32[3]; add it to what that gives");
}
