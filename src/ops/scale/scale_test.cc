#include "ops/scale/scale.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("scale multiplies a tensor, and its gradient, by a number") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t width : {1, 37, 7001}) {
      check_operation({.tokens = 5,
                       .inputs = {{{dtype, {5, width}, kTokenAxis}, random_numbers(5 * width, 1)}},
                       .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::scale(b, in[0], 0.22); },
                       .reference =
                           [](const std::vector<Numbers>& in) {
                             Numbers out = in[0];
                             for (double& number : out) number *= 0.22;
                             return out;
                           }});
    }
  }
}

TEST_CASE("scale multiplies a tensor, and its gradient, by a number of the graph") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t width : {1, 37, 7001}) {
      check_operation(
          {.tokens = 5,
           .inputs = {{{dtype, {5, width}, kTokenAxis}, random_numbers(5 * width, 1)},
                      {{DType::kF32, {1}}, {-1.75}, false}},
           .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::scale_by(b, in[0], in[1]); },
           .reference =
               [](const std::vector<Numbers>& in) {
                 Numbers out = in[0];
                 for (double& number : out) number *= in[1][0];
                 return out;
               }});
    }
  }
}

TEST_CASE("a tensor scaled by 1 is the tensor itself") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 4}}, ValueKind::kBatch);
  CHECK(ops::scale(b, x, 1) == x);
}

TEST_CASE("scale refuses integers") {
  Graph graph;
  Builder b(graph);
  const ValueId n = b.input("n", {DType::kI32, {3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::scale(b, n, 2), "[scale] expected x in f32 or bf16, got i32[3]; cast it");
}
