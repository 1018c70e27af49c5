#include "ops/dropout/dropout.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/random.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

Numbers reference_dropout(const Numbers& x, int64_t seed, double p, int64_t stream) {
  Numbers out = x;
  for (size_t i = 0; seed >= 0 && i < out.size(); ++i) {
    const uint32_t bits = philox(static_cast<uint64_t>(seed), static_cast<uint64_t>(stream), i / 4)[i % 4];
    out[i] = uniform_float(bits) < static_cast<float>(p) ? 0 : x[i] / (1 - p);
  }
  return out;
}

}  // namespace

TEST_CASE("dropout draws from philox by element, and the same mask falls on the cotangent") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const double seed : {-1.0, 0.0, 123456789012.0}) {
      for (const double p : {0.0, 0.3}) {
        check_operation(
            {.tokens = 9,
             .inputs = {{{dtype, {9, 23}, kTokenAxis}, random_numbers(207, 1)}, {{DType::kI64, {1}}, {seed}, false}},
             .build = [&](Builder& b, const std::vector<ValueId>& in) { return ops::dropout(b, in[0], in[1], p, 5); },
             .reference =
                 [&](const std::vector<Numbers>& in) {
                   return reference_dropout(in[0], static_cast<int64_t>(in[1][0]), p, 5);
                 }});
      }
    }
  }
}

TEST_CASE("dropout of a part of a stream draws what the whole stream's does there") {
  constexpr int64_t kFirst = 12, kWidth = 23, kRows = 9;
  check_operation({.tokens = kRows,
                   .inputs = {{{DType::kF32, {kRows, kWidth}, kTokenAxis}, random_numbers(kRows * kWidth, 1)},
                              {{DType::kI64, {1}}, {77}, false},
                              {{DType::kI32, {3}}, {-kFirst, -5, 9}, false}},
                   .build =
                       [&](Builder& b, const std::vector<ValueId>& in) {
                         return ops::dropout(b, in[0], in[1], 0.3, 5, {.offsets = in[2]});
                       },
                   .reference =
                       [&](const std::vector<Numbers>& in) {
                         Numbers whole(static_cast<size_t>(kFirst * kWidth), 0.0);
                         whole.insert(whole.end(), in[0].begin(), in[0].end());
                         whole = reference_dropout(whole, 77, 0.3, 5);
                         return Numbers(whole.begin() + kFirst * kWidth, whole.end());
                       }});
}

TEST_CASE("dropout of a tile draws what the whole stream's does there") {
  constexpr int64_t kTile = 3, kWidth = 20, kRows = 9;
  check_operation(
      {.tokens = kRows,
       .inputs = {{{DType::kF32, {kRows, kWidth}}, random_numbers(kRows * kWidth, 1)},
                  {{DType::kI64, {1}}, {77}, false}},
       .build = [&](Builder& b,
                    const std::vector<ValueId>& in) { return ops::dropout(b, in[0], in[1], 0.3, 5, {.tile = kTile}); },
       .reference =
           [&](const std::vector<Numbers>& in) {
             Numbers whole(static_cast<size_t>(kTile * kRows * kWidth), 0.0);
             whole.insert(whole.end(), in[0].begin(), in[0].end());
             whole = reference_dropout(whole, 77, 0.3, 5);
             return Numbers(whole.begin() + kTile * kRows * kWidth, whole.end());
           }});
}

TEST_CASE("dropout drops its share and keeps the mean") {
  constexpr int64_t kElems = 200'000;
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {kElems}}, ValueKind::kBatch);
  const ValueId seed = b.input("seed", {DType::kI64, {1}}, ValueKind::kBatch);
  const ValueId y = ops::dropout(b, x, seed, 0.1, 0), z = ops::dropout(b, x, seed, 0.1, 1);
  const Run run(graph, {{x, Numbers(kElems, 1.0)}, {seed, {3}}});
  double sum = 0;
  for (const double number : run.numbers(y)) sum += number;
  CHECK(sum / kElems == doctest::Approx(1).epsilon(0.003));
  CHECK((run.numbers(y) != run.numbers(z)));
}

TEST_CASE("dropout refuses a probability of one and a seed of another type") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {4}}, ValueKind::kBatch);
  const ValueId seed = b.input("seed", {DType::kI64, {1}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::dropout(b, x, seed, 1, 0),
                    "[dropout] expected a probability in [0, 1), got 1; set another");
  CHECK_THROWS_WITH((void)ops::dropout(b, x, x, 0.1, 0),
                    "[dropout] expected seed as i64[1], got f32[4]; cast it or check the model's sizes");
}
