#include "ops/pointwise/pointwise.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/row_sum/row_sum.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;
namespace pw = spillway::ops::pointwise;

namespace {

constexpr int64_t kRows = 37;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const ValueType kPerRow{DType::kF32, {kRows}, kRowAxis}, kScalar{DType::kF32, {1}};

// Returns numbers from 0.3 to 3, away from every limit below.
Numbers positive_numbers(uint64_t seed) {
  Numbers numbers = random_numbers(kRows, seed, 1.3);
  for (double& number : numbers) number = std::abs(number) + 0.3;
  return numbers;
}

struct Pointwise {
  const char* name;
  ValueId (*build)(Builder&, ValueId);
  double (*reference)(double);
  Numbers x;
};

void check_function(const Pointwise& f) {
  CAPTURE(f.name);
  check_operation({.rows = kRows,
                   .inputs = {{kPerRow, f.x}},
                   .build = [&](Builder& b, const std::vector<ValueId>& in) { return f.build(b, in[0]); },
                   .reference =
                       [&](const std::vector<Numbers>& in) {
                         Numbers out = in[0];
                         for (double& number : out) number = f.reference(number);
                         return out;
                       }});
}

struct BinaryFunction {
  const char* name;
  ValueId (*build)(Builder&, ValueId, ValueId);
  double (*reference)(double, double);
};

void check_function(const BinaryFunction& f, const ValueType& second) {
  CAPTURE(f.name);
  CAPTURE(to_string(second));
  check_operation({.rows = kRows,
                   .inputs = {{kPerRow, random_numbers(kRows, 1, 3)}, {second, positive_numbers(2)}},
                   .build = [&](Builder& b, const std::vector<ValueId>& in) { return f.build(b, in[0], in[1]); },
                   .reference =
                       [&](const std::vector<Numbers>& in) {
                         Numbers out = in[0];
                         for (size_t i = 0; i < out.size(); ++i)
                           out[i] = f.reference(out[i], in[1][in[1].size() == 1 ? 0 : i]);
                         return out;
                       }});
}

// Returns the results of a function for some numbers, outside of a batch.
Numbers values_of(ValueId (*build)(Builder&, ValueId), const Numbers& numbers) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {static_cast<int64_t>(numbers.size())}}, ValueKind::kBatch);
  const ValueId y = build(b, x);
  return Run(graph, {{x, numbers}}).numbers(y);
}

// Returns the gradient of the sum of a function's results.
Numbers gradients_of(ValueId (*build)(Builder&, ValueId), const Numbers& numbers) {
  const ValueType type{DType::kF32, {static_cast<int64_t>(numbers.size())}};
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", type, ValueKind::kTrainableWeight);
  const ValueId ones = b.input("ones", type, ValueKind::kBatch);
  std::vector<WeightGradient> gradients = {{.weight = x}};
  append_backward(b, weighted_sum(b, build(b, x), ones), gradients, ops::add);
  return Run(graph, {{x, numbers}, {ones, Numbers(numbers.size(), 1)}}).numbers(gradients[0].gradient);
}

ValueId min_with_2(Builder& b, ValueId x) { return pw::min_with(b, x, 2); }
ValueId max_with_2(Builder& b, ValueId x) { return pw::max_with(b, x, 2); }

}  // namespace

TEST_CASE("functions of a number and their gradients agree with float64, for all rows and fewer") {
  const Numbers any = random_numbers(kRows, 1, 6), positive = positive_numbers(2);
  Numbers negative = positive;
  for (double& number : negative) number = -number;
  const Pointwise functions[] = {
      {"affine", [](Builder& b, ValueId x) { return pw::affine(b, x, -0.3, 1.7); },
       [](double x) { return -0.3 * x + 1.7; }, any},
      {"min_with", min_with_2, [](double x) { return std::min(x, 2.0); }, any},
      {"max_with", max_with_2, [](double x) { return std::max(x, 2.0); }, any},
      {"relu", pw::relu, [](double x) { return std::max(x, 0.0); }, any},
      {"exp", pw::exp, [](double x) { return std::exp(x); }, any},
      {"log", pw::log, [](double x) { return std::log(x); }, positive},
      {"sigmoid", pw::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, any},
      {"log_sigmoid", pw::log_sigmoid, [](double x) { return -std::log(1 + std::exp(-x)); }, any},
      {"log1m_exp", pw::log1m_exp, [](double x) { return std::log(1 - std::exp(x)); }, negative},
      {"square", pw::square, [](double x) { return x * x; }, any},
      {"soft_cap", [](Builder& b, ValueId x) { return pw::soft_cap(b, x, 2.5); },
       [](double x) { return 2.5 * std::tanh(x / 2.5); }, any}};
  for (const Pointwise& function : functions) check_function(function);
}

TEST_CASE("functions of two numbers and their gradients agree with float64, one for all among them") {
  const BinaryFunction functions[] = {{"add", pw::add, [](double x, double y) { return x + y; }},
                                      {"sub", pw::sub, [](double x, double y) { return x - y; }},
                                      {"mul", pw::mul, [](double x, double y) { return x * y; }},
                                      {"div", pw::div, [](double x, double y) { return x / y; }},
                                      {"max", pw::max, [](double x, double y) { return std::max(x, y); }}};
  for (const BinaryFunction& function : functions) {
    check_function(function, kPerRow);
    check_function(function, kScalar);
  }
}

TEST_CASE("a number multiplied by itself, and a mean scaled by a number, have their gradients") {
  check_operation({.rows = kRows,
                   .inputs = {{kPerRow, random_numbers(kRows, 1)}, {kScalar, {0.7}}},
                   .build =
                       [](Builder& b, const std::vector<ValueId>& in) {
                         return pw::mul(b, ops::row_mean(b, pw::mul(b, in[0], in[0])), in[1]);
                       },
                   .reference =
                       [](const std::vector<Numbers>& in) {
                         double sum = 0;
                         for (const double x : in[0]) sum += x * x;
                         return Numbers{sum / std::max<double>(1, static_cast<double>(in[0].size())) * in[1][0]};
                       }});
}

TEST_CASE("functions neither overflow nor lose what is far out") {
  CHECK(values_of(pw::sigmoid, {-200, 0, 200}) == Numbers{0, 0.5, 1});
  CHECK(values_of(pw::log_sigmoid, {-1e4, 0, 1e4}) == rounded({-1e4, -std::log(2.0), 0}, DType::kF32));
  CHECK(values_of(pw::log_sigmoid, {20}) == rounded({-std::log1p(std::exp(-20.0))}, DType::kF32));
  check_close(values_of(pw::log1m_exp, {-1e-6f, -1, -50, -200}),
              {std::log(1e-6), std::log(1 - std::exp(-1.0)), -std::exp(-50.0), 0}, DType::kF32, 1e-7);
  CHECK(values_of(min_with_2, {-kInfinity, kInfinity}) == Numbers{-kInfinity, 2});
  CHECK(values_of(max_with_2, {-kInfinity, kInfinity}) == Numbers{2, kInfinity});
  for (const double gradient : gradients_of(pw::log_sigmoid, {-1e4, 1e4, 30})) CHECK(std::isfinite(gradient));
  // Here 1 - sigmoid(x) would be 0 in f32.
  check_close(gradients_of(pw::sigmoid, {30}), {std::exp(-30.0)}, DType::kF32, 1e-6);
  CHECK(gradients_of(pw::sigmoid, {30})[0] > 0);
}

TEST_CASE("at a limit the gradient passes as torch's does: for a clamp, but not for relu") {
  CHECK(gradients_of(min_with_2, {1, 2, 3}) == Numbers{1, 1, 0});
  CHECK(gradients_of(max_with_2, {1, 2, 3}) == Numbers{0, 1, 1});
  CHECK(gradients_of(pw::relu, {-1, 0, 0x1p-149, 1}) == Numbers{0, 0, 1, 1});
}

TEST_CASE("NaN stays NaN") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto build : {min_with_2, max_with_2, pw::relu, pw::log_sigmoid, pw::log1m_exp, pw::detach})
    CHECK(std::isnan(values_of(build, {nan})[0]));
}

TEST_CASE("what is detached passes, but no gradient goes back through it and nothing is appended for one") {
  const auto build = [](Builder& b, ValueId x) { return pw::mul(b, x, pw::detach(b, pw::exp(b, x))); };
  check_close(gradients_of(build, {0.5, -1}), {std::exp(0.5), std::exp(-1.0)}, DType::kF32, 1e-6);
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", kScalar, ValueKind::kTrainableWeight);
  std::vector<WeightGradient> gradients = {{.weight = x}};
  append_backward(b, weighted_sum(b, build(b, x), x), gradients, ops::add);
  int64_t products = 0;
  for (const Operation& op : graph.ops) products += op.def->name == "mul" ? 1 : 0;
  CHECK(products == 2);  // the one above and the gradient of its first operand
}

TEST_CASE("a weight whose every way to the loss is detached is an error") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", kScalar, ValueKind::kTrainableWeight);
  std::vector<WeightGradient> gradients = {{.weight = x}};
  CHECK_THROWS_AS(append_backward(b, weighted_sum(b, pw::detach(b, x), x), gradients, ops::add), InputError);
}

TEST_CASE("a row's number has the same bits alone and among others") {
  const Numbers numbers = random_numbers(1000, 1, 4);
  for (const auto build : {pw::exp, pw::sigmoid, pw::log_sigmoid}) {
    const Numbers all = values_of(build, numbers);
    for (const size_t i : {0, 7, 500, 999}) CHECK(values_of(build, {numbers[i]})[0] == all[i]);
  }
}

TEST_CASE("functions of numbers refuse what is not f32, and operands that differ") {
  Graph graph{.axes = {{"tokens", 3}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3}}, ValueKind::kBatch);
  const ValueId token = b.input("token", {DType::kF32, {3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId half = b.input("half", {DType::kBF16, {3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)pw::exp(b, half), "[pointwise] expected x in f32, got bf16[3]; cast it");
  CHECK_THROWS_WITH((void)pw::sub(b, x, token),
                    "[pointwise] expected y as f32[3], got f32[3t]; cast it or check the model's sizes");
}
