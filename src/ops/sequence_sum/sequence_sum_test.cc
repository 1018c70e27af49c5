#include "ops/sequence_sum/sequence_sum.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ops/pointwise/pointwise.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kSummedTokens = 700;
const ValueType kPerToken{DType::kF32, {kSummedTokens}, kTokenAxis};
// The offsets of seven sequences, one of them empty, with room for one more.
const Numbers kOffsets = {0, 1, 30, 330, 330, 600, 611, 690, 690};
const ValueType kOffsetType{DType::kI32, {static_cast<int64_t>(kOffsets.size())}};

OperationCase make_sums(int64_t rows, int64_t first, int64_t stride, bool is_weighted,
                        const Numbers& offsets = kOffsets) {
  OperationCase test{.tokens = kSummedTokens,
                     .rows = rows,
                     .inputs = {{kPerToken, random_numbers(kSummedTokens, 1)},
                                {kPerToken, random_numbers(kSummedTokens, 2), false},
                                {kOffsetType, offsets, false, true},
                                // This makes the case follow the rows, too.
                                {{DType::kF32, {rows}, kRowAxis}, random_numbers(rows, 3)}}};
  test.build = [=](Builder& b, const std::vector<ValueId>& in) {
    const ValueId weights = is_weighted ? in[1] : kNone;
    return ops::pointwise::mul(b, ops::sequence_sum(b, in[0], weights, in[2], {kRowAxis, first, stride}), in[3]);
  };
  test.reference = [=](const std::vector<Numbers>& in) {
    Numbers out = in[3];
    for (size_t row = 0; row < out.size(); ++row) {
      const size_t sequence = static_cast<size_t>(first) + row * static_cast<size_t>(stride);
      double sum = 0;
      for (size_t t = 0; t < in[0].size(); ++t) {
        const auto at = static_cast<double>(t);
        if (at >= in[2][sequence] && at < in[2][sequence + 1]) sum += in[0][t] * (is_weighted ? in[1][t] : 1);
      }
      out[row] *= sum;
    }
    return out;
  };
  return test;
}

}  // namespace

TEST_CASE("sums over sequences and their gradients agree with float64, for shorter streams and fewer rows") {
  for (const bool is_weighted : {false, true}) {
    CAPTURE(is_weighted);
    check_operation(make_sums(8, 0, 1, is_weighted));
    check_operation(make_sums(4, 0, 2, is_weighted));  // the first of each pair
    check_operation(make_sums(4, 1, 2, is_weighted));  // and the second
    check_operation(make_sums(3, 4, 1, is_weighted));
  }
}

TEST_CASE("of a sequence that begins before the tokens or ends behind them, those that are there count") {
  const Numbers offsets = {-700, -40, -3, 330, 330, 600, 611, 930, 1400};
  for (const bool is_weighted : {false, true}) {
    check_operation(make_sums(8, 0, 1, is_weighted, offsets));
    check_operation(make_sums(4, 1, 2, is_weighted, offsets));
  }
}

TEST_CASE("a row's number goes to the tokens of its sequence, and its gradient is their sum") {
  for (const bool is_weighted : {false, true}) {
    CAPTURE(is_weighted);
    OperationCase test = make_sums(4, 1, 2, is_weighted);
    test.build = [=](Builder& b, const std::vector<ValueId>& in) {
      return ops::pointwise::mul(
          b, ops::sequence_spread(b, in[3], is_weighted ? in[1] : kNone, in[2], {kRowAxis, 1, 2}), in[0]);
    };
    test.reference = [=](const std::vector<Numbers>& in) {
      Numbers out(in[0].size());
      for (size_t row = 0; row < in[3].size(); ++row) {
        for (auto t = static_cast<size_t>(in[2][1 + 2 * row]); t < static_cast<size_t>(in[2][2 + 2 * row]); ++t)
          out[t] = in[3][row] * (is_weighted ? in[1][t] : 1) * in[0][t];
      }
      return out;
    };
    check_operation(test);
  }
}

TEST_CASE("the sum of a sequence has the same bits alone and among others") {
  const Numbers numbers = random_numbers(kSummedTokens, 4, 100);
  const auto sums = [](int64_t rows, const Numbers& offsets, const Numbers& x) {
    Graph graph{.axes = {{"tokens", static_cast<int64_t>(x.size())}, {"rows", rows}}};
    Builder b(graph);
    const ValueId in = b.input("x", {DType::kF32, {static_cast<int64_t>(x.size())}, kTokenAxis}, ValueKind::kBatch);
    const ValueId at = b.input("offsets", {DType::kI32, {static_cast<int64_t>(offsets.size())}}, ValueKind::kBatch);
    const ValueId out = ops::sequence_sum(b, in, kNone, at, {kRowAxis});
    return Run(graph, {{in, x}, {at, offsets}}, {.threads = 2}).numbers(out);
  };
  const Numbers all = sums(8, kOffsets, numbers);
  for (size_t i = 0; i < all.size(); ++i) {
    const Numbers own(numbers.begin() + static_cast<int64_t>(kOffsets[i]),
                      numbers.begin() + static_cast<int64_t>(kOffsets[i + 1]));
    CHECK(sums(1, {0, static_cast<double>(own.size())}, own)[0] == all[i]);
  }
}

TEST_CASE("a sum over sequences refuses rows beyond the last sequence and other types") {
  Graph graph{.axes = {{"tokens", 4}, {"rows", 3}}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4}, kTokenAxis}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {6}}, ValueKind::kBatch);
  const ValueId row = b.input("row", {DType::kF32, {3}, kRowAxis}, ValueKind::kBatch);
  CHECK_NOTHROW((void)ops::sequence_sum(b, x, kNone, offsets, {kRowAxis, 0, 2}));
  CHECK_THROWS_WITH((void)ops::sequence_sum(b, x, kNone, offsets, {kRowAxis, 1, 2}),
                    "[sequence_sum] expected seq_offsets as i32[7], got i32[6]; cast it or check the model's sizes");
  CHECK_THROWS_WITH((void)ops::sequence_sum(b, x, row, offsets, {kRowAxis}),
                    "[sequence_sum] expected weights as f32[4t], got f32[3:1]; cast it or check the model's sizes");
}
