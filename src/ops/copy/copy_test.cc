#include "ops/copy/copy.h"

#include <doctest/doctest.h>

#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("a copy has the same numbers, and hands the cotangent on") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    check_operation({.tokens = 3,
                     .inputs = {{{dtype, {3, 45}, kTokenAxis}, random_numbers(135, 1)}},
                     .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::copy(b, in[0]); },
                     .reference = [](const std::vector<Numbers>& in) { return in[0]; }});
  }
}

TEST_CASE("codes are copied, too") {
  Graph graph;
  Builder b(graph);
  const ValueId from = b.input("from", {DType::kI32, {5, 9}}, ValueKind::kFrozenWeight), to = ops::copy(b, from);
  const Numbers numbers = random_integers(45, 1, 1000);
  CHECK(Run(graph, {{from, numbers}}).numbers(to) == numbers);
}

TEST_CASE("a copy may become the next version of another value") {
  Graph graph;
  Builder b(graph);
  const ValueType type{DType::kBF16, {7, 3}};
  const ValueId from = b.input("from", type, ValueKind::kFrozenWeight), to = b.input("to", type, ValueKind::kCache);
  const ValueId next = ops::copy(b, from);
  b.update(to, next);
  const Numbers numbers = rounded(random_numbers(21, 4), DType::kBF16);
  const Run run(graph, {{from, numbers}, {to, Numbers(21)}});
  CHECK(run.numbers(next) == numbers);
}
