#include "ops/adapted_norm/adapted_norm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "ops/matmul/matmul.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

struct Sizes {
  int64_t out, in, rank;
};

// The norms of the rows of w + scale b a.
Numbers norms_of(const Sizes& s, const Numbers& w, const Numbers& a, const Numbers& b, double scale) {
  Numbers result;
  for (int64_t o = 0; o < s.out; ++o) {
    double square = 0;
    for (int64_t i = 0; i < s.in; ++i) {
      double sum = nth(w, o * s.in + i);
      for (int64_t j = 0; j < s.rank; ++j) sum += scale * nth(b, o * s.rank + j) * nth(a, j * s.in + i);
      square += sum * sum;
    }
    result.push_back(std::sqrt(square));
  }
  return result;
}

Numbers squares_of(const Sizes& s, const Numbers& w) {
  Numbers result;
  for (const double norm :
       norms_of(s, w, Numbers(static_cast<size_t>(s.rank * s.in)), Numbers(static_cast<size_t>(s.out * s.rank)), 0))
    result.push_back(norm * norm);
  return result;
}

// The graph that a layer with an adapter appends: two products, an addend, the norms.
struct NormGraph {
  Graph graph;
  Builder b{graph};
  ValueId squares, w, factor_a, factor_b, norms;

  NormGraph(const Sizes& s, double scale, DType dtype)
      : squares(b.input("squares", {DType::kF32, {s.out}}, ValueKind::kBatch)),
        w(b.input("w", {dtype, {s.out, s.in}}, ValueKind::kBatch)),
        factor_a(b.input("a", {dtype, {s.rank, s.in}}, ValueKind::kBatch)),
        factor_b(b.input("b", {dtype, {s.out, s.rank}}, ValueKind::kBatch)) {
    const ValueId square = ops::matmul(b, factor_a, factor_a, {.transpose_b = true, .out_dtype = DType::kF32});
    const ValueId half = ops::matmul(b, square, factor_b, {.transpose_b = true, .alpha = scale / 2});
    const ValueId overlap = ops::linear(b, factor_a, w, {.addend = half, .out_dtype = DType::kF32});
    norms = ops::adapted_norm(b, squares, overlap, factor_b, scale);
  }
};

}  // namespace

TEST_CASE("the norms of rows with an adapter agree with float64, and do not make the sum") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Sizes& s : {Sizes{7, 40, 3}, Sizes{130, 33, 16}, Sizes{300, 8, 1}}) {
      CAPTURE(s.out);
      CAPTURE(name_of(dtype));
      const Numbers w = rounded(random_numbers(s.out * s.in, 1), dtype),
                    a = rounded(random_numbers(s.rank * s.in, 2), dtype),
                    b = rounded(random_numbers(s.out * s.rank, 3), dtype);
      const NormGraph test(s, 1.7, dtype);
      const Run run(test.graph,
                    {{test.squares, squares_of(s, w)}, {test.w, w}, {test.factor_a, a}, {test.factor_b, b}});
      check_close(run.numbers(test.norms), norms_of(s, w, a, b, 1.7), DType::kF32, 1e-5);
    }
  }
}

TEST_CASE("beside a B of zeros norms are the roots of the squares, to the last bit, and of a row of zeros not zero") {
  const Sizes s{5, 12, 2};
  Numbers squares = rounded(random_numbers(s.out, 7), DType::kF32);
  for (double& square : squares) square = std::abs(square);
  squares[3] = 0;
  const NormGraph test(s, 2, DType::kBF16);
  const Run run(test.graph, {{test.squares, squares},
                             {test.w, random_numbers(s.out * s.in, 1)},
                             {test.factor_a, random_numbers(s.rank * s.in, 2)},
                             {test.factor_b, Numbers(static_cast<size_t>(s.out * s.rank))}});
  Numbers expected;
  for (const double square : squares)
    expected.push_back(square == 0 ? 0x1p-126 : static_cast<double>(static_cast<float>(std::sqrt(square))));
  CHECK(run.numbers(test.norms) == expected);
}

TEST_CASE("norms with an adapter refuse operands of other shapes") {
  Graph graph;
  Builder b(graph);
  const auto value = [&](const char* name, const ValueType& type) { return b.input(name, type, ValueKind::kBatch); };
  const ValueId squares = value("squares", {DType::kF32, {6}}), factor = value("b", {DType::kBF16, {6, 2}});
  CHECK_THROWS_WITH((void)ops::adapted_norm(b, squares, value("turned", {DType::kF32, {6, 2}}), factor, 1),
                    "[adapted_norm] expected overlap as f32[2, 6], got f32[6, 2]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::adapted_norm(b, value("fewer", {DType::kF32, {5}}), squares, factor, 1),
                    "[adapted_norm] expected squares as f32[6], got f32[5]; cast it or check the model's sizes");
}
