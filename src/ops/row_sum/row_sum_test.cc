#include "ops/row_sum/row_sum.h"

#include <doctest/doctest.h>

#include <numeric>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

Numbers reference_sum(const std::vector<Numbers>& in) { return {std::accumulate(in[0].begin(), in[0].end(), 0.0)}; }

Numbers reference_mean(const std::vector<Numbers>& in) {
  return {reference_sum(in)[0] / std::max<double>(1, static_cast<double>(in[0].size()))};
}

}  // namespace

TEST_CASE("the sum and the mean of the rows in use agree with float64, and so do their gradients") {
  for (const int64_t rows : {1, 2, 7, 700}) {
    CAPTURE(rows);
    OperationCase test{.rows = rows, .inputs = {{{DType::kF32, {rows}, kRowAxis}, random_numbers(rows, 1)}}};
    test.build = [](Builder& b, const std::vector<ValueId>& in) { return ops::row_sum(b, in[0]); };
    test.reference = reference_sum;
    check_operation(test);
    test.build = [](Builder& b, const std::vector<ValueId>& in) { return ops::row_mean(b, in[0]); };
    test.reference = reference_mean;
    check_operation(test);
  }
}

TEST_CASE("a sum of tokens of which most cancel keeps the digits of what is left") {
  Graph graph{.axes = {{"tokens", 3}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId sum = ops::row_sum(b, x);
  CHECK(Run(graph, {{x, {1e8, 0.25, -1e8}}}).numbers(sum) == Numbers{0.25});
}

TEST_CASE("the sum of rows refuses a matrix and other numbers than f32") {
  Graph graph;
  Builder b(graph);
  const ValueId matrix = b.input("matrix", {DType::kF32, {3, 2}}, ValueKind::kBatch);
  const ValueId halves = b.input("halves", {DType::kBF16, {3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::row_sum(b, matrix), "[row_sum] expected x with 1 axes, got f32[3, 2]; reshape it");
  CHECK_THROWS_WITH((void)ops::row_mean(b, halves), "[row_sum] expected x in f32, got bf16[3]; cast it");
}
