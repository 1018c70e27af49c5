#include "ops/xielu/xielu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

double softplus(double x) { return std::log1p(std::exp(x)); }

// transformers' formula in float64.
double xielu_of(double x, double alpha_p, double alpha_n, double beta, double eps) {
  if (x > 0) return softplus(alpha_p) * x * x + beta * x;
  return (std::expm1(std::min(x, eps)) - x) * (beta + softplus(alpha_n)) + beta * x;
}

struct XieluCase {
  int64_t tokens = 0, width = 0;
  DType dtype = DType::kF32;
  double beta = 0.5, eps = -1e-6, spread = 1;
};

OperationCase xielu_case(const XieluCase& c) {
  OperationCase test{
      .tokens = c.tokens,
      .inputs = {{{c.dtype, {c.tokens, c.width}, kTokenAxis}, random_numbers(c.tokens * c.width, 1, c.spread)},
                 {{c.dtype, {1}}, {0.25}},
                 {{c.dtype, {1}}, {-1.125}},
                 {{DType::kF32, {1}}, {c.beta}, false},
                 {{DType::kF32, {1}}, {c.eps}, false}}};
  test.build = [](Builder& b, const std::vector<ValueId>& in) {
    return ops::xielu(b, in[0], {.alpha_p = in[1], .alpha_n = in[2], .beta = in[3], .eps = in[4]});
  };
  test.reference = [](const std::vector<Numbers>& in) {
    Numbers out;
    for (const double x : in[0]) out.push_back(xielu_of(x, in[1][0], in[2][0], in[3][0], in[4][0]));
    return out;
  };
  return test;
}

}  // namespace

TEST_CASE("xIELU and the gradients of what it reads and of its trained numbers agree with float64") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    check_operation(xielu_case({.tokens = 7, .width = 53, .dtype = dtype}));
    check_operation(xielu_case({.tokens = 3, .width = 130, .dtype = dtype, .spread = 9}));
    check_operation(xielu_case({.tokens = 2, .width = 21, .dtype = dtype, .beta = 0.375, .eps = -0.25}));
  }
  check_operation(xielu_case({.tokens = 1100, .width = 3}));
}

TEST_CASE("xIELU of numbers near zero, where its terms cancel, keeps the digits of f32") {
  Graph graph;
  Builder b(graph);
  const Numbers numbers = {-1e-5, -1e-3, -0.4999, -0.5001, -1e-7, 0, 1e-5};
  const auto one = [&](const char* name) { return b.input(name, {DType::kF32, {1}}, ValueKind::kBatch); };
  const ValueId x = b.input("x", {DType::kF32, {1, std::ssize(numbers)}}, ValueKind::kBatch);
  const ValueId alpha_p = one("alpha_p"), alpha_n = one("alpha_n"), beta = one("beta"), eps = one("eps");
  const ValueId y = ops::xielu(b, x, {.alpha_p = alpha_p, .alpha_n = alpha_n, .beta = beta, .eps = eps});
  // Without the linear term, which would hide the others.
  const Run run(graph, {{x, numbers}, {alpha_p, {0.25}}, {alpha_n, {3}}, {beta, {0}}, {eps, {-1e-6}}});
  const Numbers in = rounded(numbers, DType::kF32), eps_in = rounded({-1e-6}, DType::kF32);
  for (size_t i = 0; i < numbers.size(); ++i)
    CHECK(run.numbers(y)[i] == doctest::Approx(xielu_of(in[i], 0.25, 3, 0, eps_in[0])).epsilon(1e-6));
}

TEST_CASE("xIELU refuses trained numbers of two kinds, and others than one") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4, 6}, kTokenAxis}, ValueKind::kBatch);
  const ValueId one = b.input("one", {DType::kF32, {1}}, ValueKind::kBatch);
  const ValueId half = b.input("half", {DType::kBF16, {1}}, ValueKind::kBatch);
  const ValueId two = b.input("two", {DType::kF32, {2}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::xielu(b, x, {.alpha_p = half, .alpha_n = one, .beta = one, .eps = one}),
                    "[xielu] expected alpha_n as bf16[1], got f32[1]; cast it or check the model's sizes");
  CHECK_THROWS_AS((void)ops::xielu(b, x, {.alpha_p = two, .alpha_n = two, .beta = one, .eps = one}), InputError);
}
