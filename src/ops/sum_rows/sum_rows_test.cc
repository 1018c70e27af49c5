#include "ops/sum_rows/sum_rows.h"

#include <doctest/doctest.h>

#include <utility>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("sum_rows adds up the rows, however few there are, and what was there before") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{5, 19}, {70, 19}, {1100, 7}, {20, 300}}) {
      for (const bool addend : {false, true}) {
        OperationCase test{.tokens = tokens,
                           .inputs = {{{dtype, {tokens, width}, kTokenAxis}, random_numbers(tokens * width, 1), false}},
                           .build =
                               [](Builder& b, const std::vector<ValueId>& in) {
                                 return ops::sum_rows(b, in[0], in.size() > 1 ? in[1] : kNone, DType::kF32);
                               },
                           .reference =
                               [width = width](const std::vector<Numbers>& in) {
                                 Numbers sums = in.size() > 1 ? in[1] : Numbers(static_cast<size_t>(width));
                                 for (size_t i = 0; i < in[0].size(); ++i) sums[i % sums.size()] += in[0][i];
                                 return sums;
                               }};
        if (addend) test.inputs.push_back({{DType::kF32, {width}}, random_numbers(width, 2), false});
        check_operation(test);
      }
    }
  }
}

TEST_CASE("sum_rows refuses an addend of another width or type than its result") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kBF16, {4, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId addend = b.input("addend", {DType::kF32, {4}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::sum_rows(b, x, addend, DType::kF32),
                    "[sum_rows] expected the addend as f32[3], got f32[4]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::sum_rows(b, addend, kNone, DType::kF32),
                    "[sum_rows] expected x with 2 axes, got f32[4]; reshape it");
}
