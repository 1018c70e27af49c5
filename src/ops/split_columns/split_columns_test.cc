#include "ops/split_columns/split_columns.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Makes a case for one of the parts; the gradients of the others are absent.
OperationCase part_case(const std::vector<int64_t>& widths, size_t part, DType dtype) {
  constexpr int64_t kTokens = 7;
  int64_t all = 0, first = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (i < part) first += widths[i];
    all += widths[i];
  }
  return {
      .tokens = kTokens,
      .inputs = {{{dtype, {kTokens, all}, kTokenAxis}, random_numbers(kTokens * all, 1)}},
      .build = [=](Builder& b, const std::vector<ValueId>& in) { return ops::split_columns(b, in[0], widths)[part]; },
      .reference =
          [=, width = widths[part]](const std::vector<Numbers>& in) {
            Numbers out;
            for (auto row = in[0].begin(); row < in[0].end(); row += all)
              out.insert(out.end(), row + first, row + first + width);
            return out;
          }};
}

}  // namespace

TEST_CASE("columns of a matrix are its parts, and their gradients its columns") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const size_t part : {0, 1, 2}) check_operation(part_case({24, 8, 8}, part, dtype));
    for (const size_t part : {0, 1}) check_operation(part_case({5, 1300}, part, dtype));
  }
}

TEST_CASE("parts that are not all columns of a matrix are refused") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 8}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::split_columns(b, x, {4, 3}),
                    "[split_columns] expected parts of 8 columns in all, got 7; check the model's sizes");
}
