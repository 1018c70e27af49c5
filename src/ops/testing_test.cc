#include "ops/testing.h"

#include <doctest/doctest.h>

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("the harness's own end of a graph is the weighted sum") {
  Graph graph;
  Builder b(graph);
  const ValueId y = b.input("y", {DType::kBF16, {3}}, ValueKind::kBatch);
  const ValueId c = b.input("c", {DType::kBF16, {3}}, ValueKind::kBatch);
  const ValueId loss = weighted_sum(b, y, c);
  CHECK(Run(graph, {{y, {1, 2, 3}}, {c, {0.5, -1, 2}}}).numbers(loss) == Numbers{4.5});
}
