#include "ops/mean_squared_error/mean_squared_error.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

// Returns the mean of each sequence, without the elements that lie outside of the tokens.
Numbers reference_errors(const std::vector<Numbers>& in, size_t width) {
  Numbers means;
  for (size_t s = 0; s < in[2].size(); ++s) {
    const double begin = in[3][s] * static_cast<double>(width), end = in[3][s + 1] * static_cast<double>(width);
    double sum = 0;
    for (size_t i = 0; i < in[0].size(); ++i)
      if (const auto at = static_cast<double>(i); begin <= at && at < end)
        sum += (in[0][i] - in[1][i]) * (in[0][i] - in[1][i]);
    means.push_back(end > begin ? sum / (end - begin) : 0);
  }
  return means;
}

OperationCase error_case(int64_t tokens, int64_t width, int64_t rows, const Numbers& offsets, DType prediction,
                         DType target) {
  return {.tokens = tokens,
          .rows = rows,
          .inputs = {{{prediction, {tokens, width}, kTokenAxis}, random_numbers(tokens * width, 1)},
                     {{target, {tokens, width}, kTokenAxis}, random_numbers(tokens * width, 2, 2), false},
                     {{DType::kF32, {rows}, kRowAxis}, random_numbers(rows, 3), false},
                     {{DType::kI32, {std::ssize(offsets)}}, offsets, false, true}},
          .build =
              [](Builder& b, const std::vector<ValueId>& in) {
                return ops::mean_squared_error(b, in[0], in[1], in[2], in[3]).loss;
              },
          .reference =
              [=](const std::vector<Numbers>& in) {
                const Numbers means = reference_errors(in, static_cast<size_t>(width));
                double loss = 0;
                for (size_t s = 0; s < means.size(); ++s) loss += in[2][s] * means[s];
                return Numbers{loss};
              }};
}

}  // namespace

TEST_CASE("the weighted mean squared error and its gradient agree with float64, as a loss and on the way to one") {
  for (const bool is_loss : {false, true}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (OperationCase test :
           {error_case(9, 21, 3, {0, 4, 4, 7, 9}, dtype, DType::kF32), error_case(70, 5, 2, {0, 37, 70}, dtype, dtype),
            error_case(6, 300, 2, {0, 1, 5}, dtype, DType::kF32)}) {
        test.is_loss = is_loss;
        check_operation(test);
      }
    }
  }
}

TEST_CASE("of sequences that reach beyond the tokens, those that are there have their share of the mean") {
  for (const Numbers& offsets : {Numbers{-5, 3, 3, 14}, {-9, -2, 4, 9}, {-20, -10, -1, 0}, {0, 4, 12, 30}})
    check_operation(error_case(9, 21, 3, offsets, DType::kF32, DType::kF32));
}

TEST_CASE("each sequence's own error is told, too, without its weight") {
  OperationCase test = error_case(9, 21, 3, {0, 4, 4, 7, 9}, DType::kF32, DType::kF32);
  test.inputs[0].differentiate = false;
  test.build = [](Builder& b, const std::vector<ValueId>& in) {
    return ops::mean_squared_error(b, in[0], in[1], in[2], in[3]).of_each;
  };
  test.reference = [](const std::vector<Numbers>& in) { return reference_errors(in, 21); };
  check_operation(test);
}

TEST_CASE("a mean squared error refuses a target of another shape and offsets of too few sequences") {
  Graph graph{.axes = {{"tokens", 4}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4, 3}, kTokenAxis}, ValueKind::kBatch);
  const ValueId y = b.input("y", {DType::kF32, {4, 2}, kTokenAxis}, ValueKind::kBatch);
  const ValueId weights = b.input("weights", {DType::kF32, {2}}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {2}}, ValueKind::kBatch);
  CHECK_THROWS_WITH(
      (void)ops::mean_squared_error(b, x, y, weights, offsets),
      "[mean_squared_error] expected the target as f32[4t, 3], got f32[4t, 2]; cast it or check the model's sizes");
  CHECK_THROWS_WITH(
      (void)ops::mean_squared_error(b, x, x, weights, offsets),
      "[mean_squared_error] expected seq_offsets as i32 of at least 3, got i32[2]; check the model's sizes");
}
