#include "ops/embedding_noise/embedding_noise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

using ops::NoiseLength;

// The sequences have 3, none and 5 rows, with a row behind them.
const Numbers kSequences = {0, 3, 3, 8};
constexpr int64_t kNoiseRows = 9;

double length_of(NoiseLength length) { return length == NoiseLength::kAllSequences ? 8 : 5; }

Numbers reference_noise(const Numbers& x, size_t width, int64_t seed, double alpha, double length, int64_t stream) {
  Numbers out = x;
  const size_t blocks = (width + 3) / 4;
  for (size_t row = 0; seed >= 0 && row < x.size() / width; ++row) {
    if (row == kNoiseRows - 1) continue;
    const double most = alpha / std::sqrt(length * static_cast<double>(width));
    for (size_t c = 0; c < width; ++c) {
      const auto bits = philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(stream), row * blocks + c / 4);
      out[row * width + c] += (2 * double{uniform_float(bits[c % 4])} - 1) * most;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("noise on embeddings draws from philox by element, scaled by the longest sequence or by all of them") {
  for (const auto& [dtype, length] : {std::pair{DType::kF32, NoiseLength::kLongestSequence},
                                      {DType::kBF16, NoiseLength::kLongestSequence},
                                      {DType::kF32, NoiseLength::kAllSequences}}) {
    for (const double seed : {-1.0, 0.0, 123456789012.0}) {
      for (const int64_t width : {23, 24, 300}) {
        check_operation({.tokens = kNoiseRows,
                         .inputs = {{{dtype, {kNoiseRows, width}, kTokenAxis}, random_numbers(kNoiseRows * width, 1)},
                                    {{DType::kI64, {1}}, {seed}, false},
                                    {{DType::kI32, {4}}, kSequences, false}},
                         .build =
                             [&](Builder& b, const std::vector<ValueId>& in) {
                               return ops::embedding_noise(b, in[0], in[1], in[2], 5, length, 7);
                             },
                         .reference =
                             [&](const std::vector<Numbers>& in) {
                               return reference_noise(in[0], static_cast<size_t>(width), static_cast<int64_t>(in[1][0]),
                                                      5, length_of(length), 7);
                             }});
      }
    }
  }
}

TEST_CASE("noise on embeddings is even around zero and fills its range") {
  constexpr int64_t kTokens = 100, kWidth = 400;
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {kTokens, kWidth}}, ValueKind::kBatch);
  const ValueId seed = b.input("seed", {DType::kI64, {1}}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {2}}, ValueKind::kBatch);
  const ValueId y = ops::embedding_noise(b, x, seed, offsets, 10, NoiseLength::kLongestSequence, 0);
  const Run run(graph, {{x, Numbers(kTokens * kWidth, 0)}, {seed, {3}}, {offsets, {0, kTokens}}});
  const Numbers numbers = run.numbers(y);
  double sum = 0, squares = 0;
  for (const double number : numbers) sum += number, squares += number * number;
  const double most = 10 / std::sqrt(kTokens * kWidth), count = kTokens * kWidth;
  CHECK(std::abs(sum / count) < 0.02 * most);
  CHECK(squares / count == doctest::Approx(most * most / 3).epsilon(0.02));
  CHECK(*std::max_element(numbers.begin(), numbers.end()) == doctest::Approx(most).epsilon(0.001));
}

TEST_CASE("noise on embeddings refuses a negative alpha and a seed of another type") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4, 2}}, ValueKind::kBatch);
  const ValueId seed = b.input("seed", {DType::kI64, {1}}, ValueKind::kBatch);
  const ValueId offsets = b.input("offsets", {DType::kI32, {2}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::embedding_noise(b, x, seed, offsets, -1, NoiseLength::kAllSequences, 0),
                    "[embedding_noise] expected an alpha of 0 or more, got -1; set another");
  CHECK_THROWS_WITH((void)ops::embedding_noise(b, x, offsets, offsets, 1, NoiseLength::kAllSequences, 0),
                    "[embedding_noise] expected seed as i64[1], got i32[2]; cast it or check the model's sizes");
}
