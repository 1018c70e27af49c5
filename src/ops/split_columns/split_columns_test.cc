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
    for (const size_t part : {0, 3, 41}) check_operation(part_case(std::vector<int64_t>(42, 8), part, dtype));
  }
}

TEST_CASE("the columns of each group are split, and joined again, where an absent part is zeros") {
  constexpr int64_t kTokens = 5, kGroups = 3, kFirst = 4, kSecond = 7, kAll = kFirst + kSecond;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool keeps_second : {false, true}) {
      check_operation(
          {.tokens = kTokens,
           .inputs = {{{dtype, {kTokens, kGroups * kAll}, kTokenAxis}, random_numbers(kTokens * kGroups * kAll, 1)}},
           .build =
               [&](Builder& b, const std::vector<ValueId>& in) {
                 const std::vector<ValueId> parts = ops::split_columns(b, in[0], {kFirst, kSecond}, kGroups);
                 return ops::join_columns(b, {parts[0], keeps_second ? parts[1] : kNone}, {kFirst, kSecond}, kGroups);
               },
           .reference =
               [&](const std::vector<Numbers>& in) {
                 Numbers out = in[0];
                 for (size_t i = 0; i < out.size(); ++i)
                   if (!keeps_second && i % kAll >= kFirst) out[i] = 0;
                 return out;
               }});
    }
  }
}

TEST_CASE("parts that are not all columns of a matrix are refused") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 8}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::split_columns(b, x, {4, 3}),
                    "[split_columns] expected parts of 8 columns in all, got 7; check the model's sizes");
}
