#include "ops/layer_norm/layer_norm.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "ops/add/add.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr double kEps = 1e-6;

Numbers normal(Numbers x, size_t width) {
  for (size_t begin = 0; begin < x.size(); begin += width) {
    double mean = 0, variance = 0;
    for (size_t i = begin; i < begin + width; ++i) mean += x[i] / static_cast<double>(width);
    for (size_t i = begin; i < begin + width; ++i)
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(width);
    for (size_t i = begin; i < begin + width; ++i) x[i] = (x[i] - mean) / std::sqrt(variance + kEps);
  }
  return x;
}

OperationCase plain_case(int64_t tokens, int64_t width, DType dtype) {
  return {
      .tokens = tokens,
      .inputs = {{{dtype, {tokens, width}, kTokenAxis}, random_numbers(tokens * width, 1)}},
      .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::layer_norm(b, in[0], kNone, kNone, kEps); },
      .reference = [=](const std::vector<Numbers>& in) { return normal(in[0], static_cast<size_t>(width)); }};
}

OperationCase affine_case(int64_t tokens, int64_t width, DType dtype, DType weight, double weight_shift = 0) {
  OperationCase test = plain_case(tokens, width, dtype);
  test.inputs.push_back({{weight, {width}}, random_numbers(width, 2)});
  test.inputs.push_back({{weight, {width}}, random_numbers(width, 3)});
  test.build = [=](Builder& b, const std::vector<ValueId>& in) {
    return ops::layer_norm(b, in[0], in[1], in[2], kEps, weight_shift);
  };
  test.reference = [=](const std::vector<Numbers>& in) {
    Numbers out = normal(in[0], static_cast<size_t>(width));
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = out[i] * (weight_shift + in[1][i % in[1].size()]) + in[2][i % in[1].size()];
    return out;
  };
  return test;
}

OperationCase weighted_case(int64_t tokens, int64_t width, DType dtype, DType weight) {
  OperationCase test = plain_case(tokens, width, dtype);
  test.inputs.push_back({{weight, {width}}, random_numbers(width, 2)});
  test.build = [](Builder& b, const std::vector<ValueId>& in) { return ops::layer_norm(b, in[0], in[1], kNone, kEps); };
  test.reference = [=](const std::vector<Numbers>& in) {
    Numbers out = normal(in[0], static_cast<size_t>(width));
    for (size_t i = 0; i < out.size(); ++i) out[i] *= in[1][i % in[1].size()];
    return out;
  };
  return test;
}

// Makes a case with sequences and a modulation of three parts for the first `rows` of them.
OperationCase modulated_case(int64_t tokens, int64_t width, int64_t rows, const Numbers& offsets,
                             const ops::ScaleAndShift& parts, DType dtype) {
  OperationCase test = plain_case(tokens, width, dtype);
  test.rows = rows;
  test.inputs.push_back({{DType::kF32, {rows, 3 * width}, kRowAxis}, random_numbers(rows * 3 * width, 3)});
  test.inputs.push_back({{DType::kI32, {std::ssize(offsets)}}, offsets, false, true});
  test.build = [=](Builder& b, const std::vector<ValueId>& in) {
    return ops::modulated_layer_norm(b, in[0], {in[1], in[2]}, parts, kEps);
  };
  test.reference = [=](const std::vector<Numbers>& in) {
    const auto columns = static_cast<size_t>(width);
    Numbers out = normal(in[0], columns);
    for (size_t row = 0; row < in[1].size() / columns / 3; ++row) {
      const auto begin = static_cast<size_t>(in[2][row]), end = static_cast<size_t>(in[2][row + 1]);
      const auto at = [&](int64_t part, size_t i) {
        return in[1][(3 * row + static_cast<size_t>(part)) * columns + i % columns];
      };
      for (size_t i = begin * columns; i < end * columns; ++i)
        out[i] = out[i] * (1 + at(parts.scale, i)) + at(parts.shift, i);
    }
    return out;
  };
  return test;
}

}  // namespace

TEST_CASE("layer_norm and its gradients agree with float64: plain, with a weight, and with weight and bias") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    check_operation(plain_case(5, 77, dtype));
    check_operation(affine_case(5, 77, dtype, DType::kF32));
    check_operation(affine_case(6, 24, dtype, DType::kBF16));
    check_operation(affine_case(5, 21, dtype, DType::kF32, 1));
    check_operation(weighted_case(5, 77, dtype, DType::kF32));
    check_operation(weighted_case(6, 24, dtype, DType::kBF16));
    check_operation(affine_case(3, 2100, dtype, DType::kF32));  // several vectors of a thread on a GPU
  }
  check_operation(affine_case(70, 20, DType::kF32, DType::kF32));  // several blocks of rows
}

TEST_CASE("layer_norm with scale and shift of each sequence and its gradients agree with float64") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    CAPTURE(name_of(dtype));
    check_operation(modulated_case(9, 21, 3, {0, 4, 4, 7, 9}, {.scale = 1, .shift = 0}, dtype));
    check_operation(modulated_case(80, 5, 2, {0, 37, 80}, {.scale = 0, .shift = 2}, dtype));
  }
  check_operation(modulated_case(4, 2100, 1, {0, 4}, {.scale = 2, .shift = 1}, DType::kF32));
}

TEST_CASE("a row far from zero keeps its variance") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {1, 37}}, ValueKind::kBatch);
  const ValueId y = ops::layer_norm(b, x, kNone, kNone, kEps);
  Numbers numbers = random_numbers(37, 7);
  for (double& number : numbers) number += 4096;
  numbers = rounded(numbers, DType::kF32);
  check_close(Run(graph, {{x, numbers}}).numbers(y), normal(numbers, 37), DType::kF32, 4e-4);
}

TEST_CASE("the gradients of a modulation and of a stream that two norms share add up") {
  OperationCase test = modulated_case(9, 21, 3, {0, 4, 4, 7, 9}, {}, DType::kF32);
  const auto first = test.reference;
  const auto second = modulated_case(9, 21, 3, {0, 4, 4, 7, 9}, {.scale = 2, .shift = 1}, DType::kF32).reference;
  test.build = [](Builder& b, const std::vector<ValueId>& in) {
    const ops::Modulation modulation{in[1], in[2]};
    const ValueId y = ops::modulated_layer_norm(b, in[0], modulation, {}, kEps);
    return ops::add(b, y, ops::modulated_layer_norm(b, in[0], modulation, {.scale = 2, .shift = 1}, kEps));
  };
  test.reference = [=](const std::vector<Numbers>& in) {
    Numbers out = first(in);
    const Numbers more = second(in);
    for (size_t i = 0; i < out.size(); ++i) out[i] += more[i];
    return out;
  };
  check_operation(test);
}

TEST_CASE("layer_norm refuses a bias without a weight, other widths and parts that are not there") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 8}}, ValueKind::kBatch);
  const ValueId w = b.input("w", {DType::kF32, {8}}, ValueKind::kBatch);
  const ValueId short_w = b.input("short", {DType::kF32, {4}}, ValueKind::kBatch);
  const ValueId rows = b.input("rows", {DType::kF32, {1, 12}}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {2}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::layer_norm(b, x, kNone, w, kEps),
                    "[layer_norm] expected a weight beside the bias, got none; make it ones");
  CHECK_THROWS_WITH((void)ops::layer_norm(b, x, short_w, short_w, kEps),
                    "[layer_norm] expected weight as f32[8], got f32[4]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::modulated_layer_norm(b, x, {rows, offsets}, {}, kEps),
                    "[layer_norm] expected a width of x that divides 12, got 8; check the model's sizes");
}
