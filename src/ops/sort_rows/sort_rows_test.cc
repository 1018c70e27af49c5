#include "ops/sort_rows/sort_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "graph/autodiff.h"
#include "ops/add/add.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("sorted rows and their gradients agree with float64, for all rows and fewer") {
  for (const int64_t rows : {1, 2, 9, 300}) {
    CAPTURE(rows);
    check_operation({.rows = rows,
                     .inputs = {{{DType::kF32, {rows}, kRowAxis}, random_numbers(rows, 1, 100)}},
                     .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::sort_rows(b, in[0]); },
                     .reference =
                         [](const std::vector<Numbers>& in) {
                           Numbers out = in[0];
                           std::sort(out.begin(), out.end());
                           return out;
                         }});
  }
}

TEST_CASE("equal numbers keep their order, and NaN comes last") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {6}}, ValueKind::kTrainableWeight);
  const ValueId coefficients = b.input("coefficients", {DType::kF32, {6}}, ValueKind::kBatch);
  const ValueId sorted = ops::sort_rows(b, x);
  std::vector<WeightGradient> gradients = {{.weight = x}};
  append_backward(b, weighted_sum(b, sorted, coefficients), gradients, ops::add);
  const Run run(graph, {{x, {2, nan, 1, 2, nan, 1}}, {coefficients, {1, 2, 3, 4, 5, 6}}});
  const Numbers numbers = run.numbers(sorted);
  CHECK(Numbers(numbers.begin(), numbers.begin() + 4) == Numbers{1, 1, 2, 2});
  CHECK(std::isnan(numbers[4]));
  CHECK(std::isnan(numbers[5]));
  CHECK(run.numbers(gradients[0].gradient) == Numbers{3, 5, 1, 4, 6, 2});
}

TEST_CASE("sorting refuses a matrix and other numbers than f32") {
  Graph graph;
  Builder b(graph);
  const ValueId matrix = b.input("matrix", {DType::kF32, {3, 2}}, ValueKind::kBatch);
  const ValueId integers = b.input("integers", {DType::kI32, {3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::sort_rows(b, matrix), "[sort_rows] expected x with 1 axes, got f32[3, 2]; reshape it");
  CHECK_THROWS_WITH((void)ops::sort_rows(b, integers), "[sort_rows] expected x in f32, got i32[3]; cast it");
}
