#include "ops/quantile_mask/quantile_mask.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

Numbers mask_of(double q, const Numbers& x, const Numbers& mask, int threads = 1) {
  const auto n = static_cast<int64_t>(x.size());
  Graph graph;
  Builder b(graph);
  const ValueId in = b.input("x", {DType::kF32, {n}}, ValueKind::kBatch);
  const ValueId counts = b.input("mask", {DType::kF32, {n}}, ValueKind::kBatch);
  const ValueId out = ops::quantile_mask(b, in, counts, q);
  return Run(graph, {{in, x}, {counts, mask}}, {.threads = threads}).numbers(out);
}

}  // namespace

TEST_CASE("the largest numbers are those from torch's quantile on") {
  // torch.quantile of 1, 2, 3, 5 is 2.5 at 0.5, 2 at a third, and 4.4 at 0.9; 9 and 8 do not count.
  const Numbers x = {3, 9, 1, 5, 8, 2}, mask = {1, 0, 1, 1, 0, 1};
  CHECK(mask_of(0.5, x, mask) == Numbers{1, 0, 0, 1, 0, 0});
  CHECK(mask_of(1.0 / 3, x, mask) == Numbers{1, 0, 0, 1, 0, 1});
  CHECK(mask_of(0.9, x, mask) == Numbers{0, 0, 0, 1, 0, 0});
  CHECK(mask_of(0, x, mask) == mask);
  CHECK(mask_of(1, x, mask) == Numbers{0, 0, 0, 1, 0, 0});
}

TEST_CASE("equal numbers are on one side of a quantile, and where nothing counts nothing is chosen") {
  CHECK(mask_of(0.5, {2, 2, 2, 1}, {1, 1, 1, 1}) == Numbers{1, 1, 1, 0});
  CHECK(mask_of(0.5, {2, 1}, {0, 0}) == Numbers{0, 0});
  CHECK(mask_of(0.7, {4}, {1}) == Numbers{1});
}

TEST_CASE("a share of many numbers is chosen as large as the quantile says") {
  const Numbers x = random_numbers(1000, 1, 10), mask(1000, 1.0);
  double chosen = 0;
  for (const double one : mask_of(0.8, x, mask, 2)) chosen += one;
  CHECK(chosen == 200);
}
