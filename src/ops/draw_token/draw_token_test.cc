#include "ops/draw_token/draw_token.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/index.h"
#include "base/random.h"
#include "ops/draw_token/token_distribution.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr double kNoShare = std::numeric_limits<double>::quiet_NaN(),
                 kInfinite = std::numeric_limits<double>::infinity();

struct Row {
  Numbers logits;
  double inverse_temperature = 1, uniform = 0, logprob_inverse_temperature = 0;
  Numbers barred = {-1, -1};
};

struct Drawn {
  Numbers ids, logprobs;
};

Drawn draw(const std::vector<Row>& rows, int threads = 1) {
  const auto count = std::ssize(rows), vocabulary = std::ssize(rows[0].logits);
  Graph graph;
  Builder b(graph);
  const auto column = [&](const char* name) { return b.input(name, {DType::kF32, {count}}, ValueKind::kBatch); };
  const ops::DrawTokenInputs inputs{.logits = b.input("logits", {DType::kF32, {count, vocabulary}}, ValueKind::kBatch),
                                    .barred = b.input("barred", {DType::kI32, {count, 2}}, ValueKind::kBatch),
                                    .inverse_temperature = column("inverse_temperature"),
                                    .uniform = column("uniform"),
                                    .logprob_inverse_temperature = column("logprob_inverse_temperature")};
  const ops::DrawnTokens drawn = ops::draw_token(b, inputs);
  std::map<ValueId, Numbers> numbers;
  for (const Row& row : rows) {
    Numbers& logits = numbers[inputs.logits];
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    Numbers& barred = numbers[inputs.barred];
    barred.insert(barred.end(), row.barred.begin(), row.barred.end());
    numbers[inputs.inverse_temperature].push_back(row.inverse_temperature);
    numbers[inputs.uniform].push_back(row.uniform);
    numbers[inputs.logprob_inverse_temperature].push_back(row.logprob_inverse_temperature);
  }
  const Run run(graph, numbers, {.threads = threads});
  return {run.numbers(drawn.ids), run.numbers(drawn.logprobs)};
}

// Returns the shares in float64, for logits as they are in f32; NaN has none.
Numbers shares_of(const Numbers& logits, double inverse_temperature) {
  Numbers shares;
  double total = 0;
  for (const double logit : rounded(logits, DType::kF32)) {
    shares.push_back(std::isnan(logit) ? 0 : std::exp(logit * static_cast<float>(inverse_temperature)));
    total += shares.back();
  }
  for (double& share : shares) share /= total;
  return shares;
}

}  // namespace

TEST_CASE("a token is drawn where its share of the distribution lies, with the log of its share") {
  for (const int64_t vocabulary : {5, 513, 1500}) {
    CAPTURE(vocabulary);
    Numbers logits = random_numbers(vocabulary, 1, 3);
    logits[3] = kNoShare;
    const double factor = 1 / 0.7;
    const Numbers shares = shares_of(logits, factor);
    std::vector<Row> rows;
    std::vector<int64_t> expected;
    double below = 0;
    for (int64_t id = 0; id < vocabulary; id += 1 + vocabulary / 40) {
      double before = 0;
      for (int64_t i = 0; i < id; ++i) before += nth(shares, i);
      below = before + nth(shares, id) / 2;
      if (nth(shares, id) < 1e-5) continue;  // less than f32 can aim at
      rows.push_back({logits, factor, below, factor});
      expected.push_back(id);
    }
    const Drawn drawn = draw(rows, 3);
    for (size_t i = 0; i < rows.size(); ++i) {
      CAPTURE(i);
      CHECK(drawn.ids[i] == static_cast<double>(expected[i]));
      CHECK(drawn.logprobs[i] == doctest::Approx(std::log(nth(shares, expected[i]))).epsilon(1e-5));
    }
  }
}

TEST_CASE("at temperature 0 the first of the largest logits is drawn, and its log-probability is that of another one") {
  Numbers logits = random_numbers(700, 2);
  logits[650] = logits[620] = 2;
  const Drawn drawn = draw({{logits, kInfinite, 0.9, 0.5}, {logits, kInfinite, 0, 0}, {logits, 3, 0.999, 0.5}});
  CHECK(drawn.ids[0] == 620);
  CHECK(drawn.ids[1] == 620);
  CHECK(drawn.logprobs[0] == doctest::Approx(std::log(shares_of(logits, 0.5)[620])).epsilon(1e-5));
  CHECK(drawn.logprobs[1] == 0);
  const auto id = static_cast<size_t>(drawn.ids[2]);
  CHECK(drawn.logprobs[2] == doctest::Approx(std::log(shares_of(logits, 0.5)[id])).epsilon(1e-5));
}

TEST_CASE(
    "a row that is not asked for gets nothing, and one of no numbers the first token, whose probability is none") {
  const Numbers nothing(600, kNoShare), logits = random_numbers(600, 3);
  const Drawn drawn = draw({{nothing, kInfinite, 0.5, 0}, {nothing, 1, 0.5, 0}, {logits, -1, 0.5, 1}});
  CHECK(drawn.ids == Numbers{0, 0, 0});
  CHECK(std::isnan(drawn.logprobs[0]));
  CHECK(std::isnan(drawn.logprobs[1]));
  CHECK(drawn.logprobs[2] == 0);
}

TEST_CASE("what is barred is never drawn, and log-probabilities are those of all tokens") {
  Numbers logits = random_numbers(1100, 4);
  logits[3] = 60;  // without it the others' weights are nothing
  logits[700] = 9;
  logits[701] = 8;
  const Numbers all = shares_of(logits, 1);
  Numbers open = logits;
  open[3] = open[700] = -kInfinite;
  const Numbers shares = shares_of(open, 1);
  double below = shares[701] / 2;
  for (int64_t id = 0; id < 701; ++id) below += nth(shares, id);
  const Drawn drawn = draw({{logits, kInfinite, 0, 1, {3, -1}},
                            {logits, kInfinite, 0, 1, {700, 3}},
                            {logits, 1, below, 1, {3, 700}},
                            {logits, 1, below, 0, {700, 3}}},
                           2);
  CHECK(drawn.ids == Numbers{700, 701, 701, 701});
  CHECK(drawn.logprobs[0] == doctest::Approx(std::log(all[700])).epsilon(1e-5));
  CHECK(drawn.logprobs[2] == doctest::Approx(std::log(all[701])).epsilon(1e-5));
}

TEST_CASE("a draw at the end of the distribution is one of its tokens") {
  std::vector<float> logits(1500);
  RandomStream random(7, 0);
  for (float& logit : logits) logit = 6 * random.uniform() - 6;
  logits[1499] = -200;  // no share in f32
  std::vector<double> sums(3);
  const ops::TokenDistribution distribution(ops::OpenLogits(logits), 1, sums);
  CHECK(distribution.draw(std::nextafter(1.0, 0.0)) < 1499);
}

TEST_CASE("draw_token refuses columns that are not the rows' own") {
  Graph graph;
  Builder b(graph);
  const auto input = [&](const char* name, Shape shape) {
    return b.input(name, {DType::kF32, std::move(shape)}, ValueKind::kBatch);
  };
  const ValueId logits = input("logits", {4, 9}), row = input("row", {4}), longer = input("longer", {5});
  const ValueId barred = b.input("barred", {DType::kI32, {4, 1}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::draw_token(b, {logits, barred, row, longer, row}),
                    "[draw_token] expected uniform as f32[4], got f32[5]; cast it or check the model's sizes");
}
