#include "model/layers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include "graph/autodiff.h"
#include "model/lora.h"
#include "ops/add/add.h"
#include "ops/dropout/dropout.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kTokens = 5, kIn = 12, kOut = 7, kRank = 3;
constexpr double kScale = 2;

// a [rows, k] b' [columns, k]
Numbers product(const Numbers& a, const Numbers& b, int64_t k) {
  Numbers result;
  for (size_t i = 0; i < a.size() / static_cast<size_t>(k); ++i) {
    for (size_t j = 0; j < b.size() / static_cast<size_t>(k); ++j) {
      double sum = 0;
      for (size_t at = 0; at < static_cast<size_t>(k); ++at)
        sum += a[i * static_cast<size_t>(k) + at] * b[j * static_cast<size_t>(k) + at];
      result.push_back(sum);
    }
  }
  return result;
}

Numbers transposed(const Numbers& a, int64_t columns) {
  Numbers result;
  for (int64_t j = 0; j < columns; ++j)
    for (size_t i = static_cast<size_t>(j); i < a.size(); i += static_cast<size_t>(columns)) result.push_back(a[i]);
  return result;
}

}  // namespace

// As peft 0.21 has it (tuners/lora/variants.py): the base's own result takes all of the input, what DoRA adds to it
// what is left of the input.
TEST_CASE("DoRA with dropout agrees with float64, and so does the gradient of its magnitudes") {
  Graph graph;
  Builder b(graph);
  b.add_axis({.name = "tokens", .capacity = kTokens});
  const ModelOptions options{.tokens = kTokens,
                             .lora = LoraOptions{.r = kRank, .alpha = kScale * kRank, .dora = true, .dropout = 0.4}};
  Layers layers(b, options);
  const ValueId seed = layers.declare_dropout();
  const ValueType in{DType::kF32, {kTokens, kIn}, kTokenAxis}, out{DType::kF32, {kTokens, kOut}, kTokenAxis};
  const ValueId x = b.input("x", in, ValueKind::kBatch), residual = b.input("residual", out, ValueKind::kBatch);
  const ValueId coefficients = b.input("coefficients", out, ValueKind::kBatch);
  const ValueId y = layers.linear({.module = "m", .in_features = kIn, .out_features = kOut, .bias = true}, x, residual);
  const ValueId left = ops::dropout(b, x, seed, 0.4, 2);  // A and B are the parameters that are trained before
  b.result(left);
  const ValueId magnitude = layers.parameters().find(magnitude_name("m"))->value();
  WeightGradient gradient{.weight = magnitude};
  append_backward(b, weighted_sum(b, y, coefficients), {&gradient, 1}, ops::add);

  std::map<ValueId, Numbers> inputs = {{seed, {3}},
                                       {x, random_numbers(kTokens * kIn, 1)},
                                       {residual, random_numbers(kTokens * kOut, 2)},
                                       {coefficients, random_numbers(kTokens * kOut, 3)}};
  std::map<ParameterRole, Numbers> content;
  for (const Parameter& p : layers.parameters()) {
    Numbers& numbers = content[p.role] = random_numbers(p.shape.elems(), 10 + inputs.size());
    if (p.role == ParameterRole::kRowSquares) {
      const Numbers& w = content[ParameterRole::kLinear];
      for (size_t o = 0; o < numbers.size(); ++o) {
        numbers[o] = 0;
        for (size_t i = 0; i < kIn; ++i) numbers[o] += w[o * kIn + i] * w[o * kIn + i];
      }
    }
    inputs[p.value()] = numbers;
  }
  const Run run(graph, inputs);

  const Numbers &w = content[ParameterRole::kLinear], &bias = content[ParameterRole::kBias];
  const Numbers change =
      product(content[ParameterRole::kLoraB], transposed(content[ParameterRole::kLoraA], kIn), kRank);
  const Numbers xs = run.numbers(x), rest = run.numbers(left), terms = run.numbers(residual);
  CHECK(rest != xs);
  const Numbers of_all = product(xs, w, kIn), of_rest = product(rest, w, kIn), of_change = product(rest, change, kIn);
  const Numbers weights = run.numbers(coefficients), magnitudes = content[ParameterRole::kMagnitude];
  Numbers expected, expected_gradient(kOut);
  for (size_t at = 0; at < of_all.size(); ++at) {
    const size_t o = at % kOut;
    double square = 0;
    for (size_t i = 0; i < kIn; ++i) square += std::pow(w[o * kIn + i] + kScale * change[o * kIn + i], 2);
    const double k = magnitudes[o] / std::sqrt(square);
    expected.push_back(terms[at] + of_all[at] + bias[o] + (k - 1) * of_rest[at] + k * kScale * of_change[at]);
    expected_gradient[o] += weights[at] * (of_rest[at] + kScale * of_change[at]) / std::sqrt(square);
  }
  check_close(run.numbers(y), expected, DType::kF32, 1e-5);
  check_close(run.numbers(gradient.gradient), expected_gradient, DType::kF32, 1e-5);
}
