#include "ops/activation/activation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

struct Function {
  const char* name;
  ValueId (*build)(Builder& builder, ValueId x);
  double (*reference)(double x);
};

const Function kFunctions[] = {
    {"silu", ops::silu, [](double x) { return x / (1 + std::exp(-x)); }},
    {"gelu", ops::gelu, [](double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2); }},
    // 1 + tanh(u) as 2 / (1 + e^-2u), which keeps its digits below zero.
    {"gelu_tanh", ops::gelu_tanh,
     [](double x) {
       const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
       return x / (1 + std::exp(-2 * u));
     }},
    {"relu_squared", ops::relu_squared, [](double x) { return x < 0 ? 0 : x * x; }},
};

// Runs all numbers of a case at once.
Numbers run(const Function& function, const Numbers& numbers) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {static_cast<int64_t>(numbers.size())}}, ValueKind::kBatch);
  const ValueId out = function.build(b, x);
  return Run(graph, {{x, numbers}}).numbers(out);
}

}  // namespace

TEST_CASE("activations and their gradients agree with float64") {
  for (const Function& function : kFunctions) {
    CAPTURE(function.name);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const ValueType type{dtype, {6, 53}, kTokenAxis};
      check_operation({.tokens = 6,
                       .inputs = {{type, random_numbers(318, 1, 6)}},
                       .build = [&](Builder& b, const std::vector<ValueId>& in) { return function.build(b, in[0]); },
                       .reference =
                           [&](const std::vector<Numbers>& in) {
                             Numbers out;
                             for (const double x : in[0]) out.push_back(function.reference(x));
                             return out;
                           }});
    }
  }
}

TEST_CASE("activations keep their relative precision below zero and do not overflow far from it") {
  for (const Function& function : kFunctions) {
    CAPTURE(function.name);
    Numbers numbers;
    for (int i = -400; i <= 400; ++i) numbers.push_back(i / 64.0);
    const Numbers got = run(function, numbers);
    for (size_t i = 0; i < numbers.size(); ++i)
      CHECK(std::abs(got[i] - function.reference(numbers[i])) <= 1e-5 * std::abs(function.reference(numbers[i])));
    const Numbers far = rounded({-1e15, -1e4, 0, 1e4, 1e15}, DType::kF32);
    Numbers expected;
    for (const double x : far) expected.push_back(function.reference(x));
    CHECK(run(function, far) == rounded(expected, DType::kF32));
  }
}

TEST_CASE("an activation refuses integers") {
  Graph graph;
  Builder b(graph);
  const ValueId n = b.input("n", {DType::kI32, {3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::silu(b, n), "[activation] expected x in f32 or bf16, got i32[3]; cast it");
}
