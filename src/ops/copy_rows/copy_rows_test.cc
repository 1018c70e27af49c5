#include "ops/copy_rows/copy_rows.h"

#include <doctest/doctest.h>

#include "base/index.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

TEST_CASE("rows of a table are copied within it, and all others stay") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t width : {1, 3, 700}) {
      constexpr int64_t kRows = 6, kCopies = 3;
      Graph graph{.axes = {{"tokens", kCopies}}};
      Builder b(graph);
      const ValueId table = b.input("table", {dtype, {kRows, width}}, ValueKind::kCache);
      const ValueId from = b.input("from", {DType::kI32, {kCopies}, kTokenAxis}, ValueKind::kBatch);
      const ValueId to = b.input("to", {DType::kI32, {kCopies}, kTokenAxis}, ValueKind::kBatch);
      const ValueId next = ops::copy_rows(b, table, from, to);
      const Numbers numbers = rounded(random_numbers(kRows * width, 1), dtype);
      // The last copy is left out of the run.
      const std::map<ValueId, Numbers> inputs{{table, numbers}, {from, {4, 1}}, {to, {0, 5}}};
      const Run result(graph, inputs, {.rows = {2}}),
          in_place(graph, inputs, {.threads = 2, .rows = {2}, .in_place = true});
      CHECK(result == in_place);
      const int64_t sources[kRows] = {4, 1, 2, 3, 4, 1};
      Numbers expected;
      for (const int64_t row : sources)
        expected.insert(expected.end(), numbers.begin() + row * width, numbers.begin() + (row + 1) * width);
      CHECK(result.numbers(next) == expected);
    }
  }
}
