#include "ops/add_row/add_row.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("add_row adds a row to all rows, and its gradient is the sum over them") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const DType row : {DType::kF32, DType::kBF16}) {
      for (const int64_t width : {3, 37, 1100}) {
        check_operation(
            {.tokens = 5,
             .inputs = {{{dtype, {5, width}, kTokenAxis}, random_numbers(5 * width, 1)},
                        {{row, {width}}, random_numbers(width, 2)}},
             .build = [](Builder& b, const std::vector<ValueId>& in) { return ops::add_row(b, in[0], in[1]); },
             .reference =
                 [](const std::vector<Numbers>& in) {
                   Numbers out = in[0];
                   for (size_t i = 0; i < out.size(); ++i) out[i] += in[1][i % in[1].size()];
                   return out;
                 }});
      }
    }
  }
}

TEST_CASE("add_row refuses a row of another width") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 4}}, ValueKind::kBatch);
  const ValueId row = b.input("row", {DType::kF32, {3}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::add_row(b, x, row),
                    "[add_row] expected row as f32[4], got f32[3]; cast it or check the model's sizes");
}
