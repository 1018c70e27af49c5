#include "ops/cast/cast.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("cast rounds forward and casts the cotangent back") {
  for (const DType from : {DType::kF32, DType::kBF16}) {
    for (const DType to : {DType::kF32, DType::kBF16}) {
      check_operation({.tokens = 3,
                       .inputs = {{{from, {3, 45}, kTokenAxis}, random_numbers(135, 1)}},
                       .build = [&](Builder& b, const std::vector<ValueId>& in) { return ops::cast(b, in[0], to); },
                       .reference = [](const std::vector<Numbers>& in) { return in[0]; }});
    }
  }
}

TEST_CASE("vectors round to bf16 as single numbers do") {
  const float inf = std::numeric_limits<float>::infinity();
  Numbers numbers = {0.0, -0.0, 1 + 0x1p-8, 1 + 3 * 0x1p-8, -1 - 0x1p-8, 3.4e38, inf, -inf, NAN, 1e-40, 0x1p-133};
  const Numbers more = random_numbers(64, 5, 1e3);
  numbers.insert(numbers.end(), more.begin(), more.end());
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {static_cast<int64_t>(numbers.size())}}, ValueKind::kBatch);
  const ValueId y = ops::cast(b, x, DType::kBF16);
  const Numbers got = Run(graph, {{x, numbers}}).numbers(y);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const double want = to_float(to_bf16(static_cast<float>(numbers[i])));
    CHECK((got[i] == want || (std::isnan(got[i]) && std::isnan(want))));
  }
}

TEST_CASE("a cast to the dtype a value has already adds nothing") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {2}}, ValueKind::kBatch);
  CHECK(ops::cast(b, x, DType::kF32) == x);
  CHECK(graph.ops.empty());
  CHECK_THROWS_WITH((void)ops::cast(b, x, DType::kI32),
                    "[cast] expected the result in f32 or bf16, got i32[2]; cast it");
}
