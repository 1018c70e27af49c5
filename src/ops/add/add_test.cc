#include "ops/add/add.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("add sums two tensors and hands the cotangent to both") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t width : {1, 37, 7001}) {
      const ValueType type{dtype, {5, width}, kTokenAxis};
      check_operation({.tokens = 5,
                       .inputs = {{type, random_numbers(5 * width, 1)}, {type, random_numbers(5 * width, 2)}},
                       .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::add(b, in[0], in[1]); },
                       .reference =
                           [](const std::vector<Numbers>& in) {
                             Numbers out = in[0];
                             for (size_t i = 0; i < out.size(); ++i) out[i] += in[1][i];
                             return out;
                           }});
    }
  }
}

TEST_CASE("a value added to itself gets twice the cotangent") {
  check_operation({.inputs = {{{DType::kF32, {3, 4}}, random_numbers(12, 3)}},
                   .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::add(b, in[0], in[0]); },
                   .reference =
                       [](const std::vector<Numbers>& in) {
                         Numbers out = in[0];
                         for (double& number : out) number *= 2;
                         return out;
                       }});
}

TEST_CASE("add refuses operands that differ in type or hold integers") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 4}}, ValueKind::kBatch);
  const ValueId y = b.input("y", {DType::kBF16, {3, 4}}, ValueKind::kBatch);
  const ValueId n = b.input("n", {DType::kI32, {3, 4}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::add(b, x, y),
                    "[add] expected y as f32[3, 4], got bf16[3, 4]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::add(b, n, n), "[add] expected x in f32 or bf16, got i32[3, 4]; cast it");
}
