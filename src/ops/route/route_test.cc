#include "ops/route/route.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "ops/testing.h"

using namespace spillway;
using namespace spillway::ops::testing;

namespace {

constexpr int64_t kExperts = 12;

// Returns the numbers of [0, count) by their scores, the largest first, equal ones in their order.
std::vector<size_t> by_score(const Numbers& scores) {
  std::vector<size_t> result(scores.size());
  std::iota(result.begin(), result.end(), size_t{0});
  std::stable_sort(result.begin(), result.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return result;
}

Numbers softmax_of(Numbers x) {
  double sum = 0;
  for (double& number : x) sum += number = std::exp(number);
  for (double& number : x) number /= sum;
  return x;
}

Numbers scores_of_row(const Numbers& logits, const ops::RouteOptions& options) {
  if (options.score == ops::RouteScore::kSoftmax) return softmax_of(logits);
  Numbers scores = logits;
  if (options.score == ops::RouteScore::kSigmoid)
    for (double& number : scores) number = 1 / (1 + std::exp(-number));
  return scores;
}

// Returns the experts of a token in the order in which they are chosen.
std::vector<size_t> chosen_of(const Numbers& scores, const Numbers& bias, const ops::RouteOptions& options) {
  constexpr double kNever = -1e9;
  Numbers choosing = scores;
  for (size_t e = 0; e < bias.size(); ++e) choosing[e] += bias[e];
  if (options.top_groups < options.groups) {
    const auto size = choosing.size() / static_cast<size_t>(options.groups);
    Numbers of_groups;
    for (auto group = choosing.begin(); group < choosing.end(); group += static_cast<std::ptrdiff_t>(size)) {
      Numbers own(group, group + static_cast<std::ptrdiff_t>(size));
      std::sort(own.rbegin(), own.rend());
      of_groups.push_back(options.best_of_group == 2 ? own[0] + own[1] : own[0]);
    }
    const std::vector<size_t> order = by_score(of_groups);
    for (auto g = static_cast<size_t>(options.top_groups); g < order.size(); ++g)
      std::fill_n(choosing.begin() + static_cast<std::ptrdiff_t>(order[g] * size), size, kNever);
  }
  std::vector<size_t> chosen = by_score(choosing);
  chosen.resize(static_cast<size_t>(options.top_k));
  return chosen;
}

Numbers weights_of(const Numbers& logits, const Numbers& bias, const ops::RouteOptions& options) {
  const Numbers scores = scores_of_row(logits, options);
  Numbers weights;
  double sum = options.epsilon;
  for (const size_t e : chosen_of(scores, bias, options)) {
    weights.push_back(scores[e]);
    sum += scores[e];
  }
  if (options.score == ops::RouteScore::kSoftmaxOfChosen) weights = softmax_of(weights);
  for (double& weight : weights) weight *= options.scale / (options.normalises ? sum : 1);
  return weights;
}

void check_route(const ops::RouteOptions& options, bool has_bias = false) {
  constexpr int64_t kTokens = 7;
  OperationCase test{
      .tokens = kTokens,
      .inputs = {{{DType::kF32, {kTokens, kExperts}, kTokenAxis}, random_numbers(kTokens * kExperts, 1, 2)}}};
  if (has_bias) test.inputs.push_back({{DType::kF32, {kExperts}}, random_numbers(kExperts, 2), false});
  test.build = [=](Builder& b, const std::vector<ValueId>& in) {
    ops::RouteOptions all = options;
    if (has_bias) all.bias = in[1];
    return ops::route(b, in[0], all).weights;
  };
  test.reference = [=](const std::vector<Numbers>& in) {
    Numbers out;
    for (auto row = in[0].begin(); row < in[0].end(); row += kExperts) {
      const Numbers weights = weights_of({row, row + kExperts}, has_bias ? in[1] : Numbers(), options);
      out.insert(out.end(), weights.begin(), weights.end());
    }
    return out;
  };
  check_operation(test);
}

// Returns the experts of rows of logits.
Numbers experts_of(const Numbers& logits, int64_t experts, const ops::RouteOptions& options) {
  Graph graph;
  const auto tokens = static_cast<int64_t>(logits.size()) / experts;
  graph.axes = {{"tokens", tokens}};
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {tokens, experts}, kTokenAxis}, ValueKind::kBatch);
  const ops::Routes routes = ops::route(b, x, options);
  return Run(graph, {{x, logits}}).numbers(routes.experts);
}

}  // namespace

TEST_CASE("weights of the best experts and their gradients follow the scores") {
  using enum ops::RouteScore;
  check_route({.top_k = 3});
  check_route({.top_k = 3, .normalises = true});
  check_route({.top_k = 1, .scale = 2.5});
  check_route({.top_k = 12, .normalises = true});
  check_route({.top_k = 4, .score = kSigmoid, .normalises = true, .epsilon = 0.25, .scale = 1.5});
  check_route({.top_k = 2, .score = kSigmoid}, true);
  check_route({.top_k = 3, .score = kSoftmaxOfChosen});
  check_route({.top_k = 3, .groups = 4, .top_groups = 2});
  check_route({.top_k = 3, .score = kSigmoid, .normalises = true, .groups = 3, .top_groups = 2, .best_of_group = 2},
              true);
}

TEST_CASE("of equal scores the lower expert is chosen, zeros of both signs are equal, and NaN comes last") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  using enum ops::RouteScore;
  CHECK(experts_of({1, 2, 1, 2, 0, 0}, 6, {.top_k = 4, .score = kSoftmaxOfChosen}) == Numbers{1, 3, 0, 2});
  CHECK(experts_of({-0.0, 0.0, -1}, 3, {.top_k = 2, .score = kSoftmaxOfChosen}) == Numbers{0, 1});
  CHECK(experts_of({nan, -5, nan, 3}, 4, {.top_k = 3, .score = kSoftmaxOfChosen}) == Numbers{3, 1, 0});
  CHECK(experts_of({nan, nan, nan, nan}, 4, {.top_k = 3}) == Numbers{0, 1, 2});
  // The groups {0, 1} and {2, 3} have equal scores.
  CHECK(experts_of({1, 4, 4, 1}, 4, {.top_k = 2, .score = kSoftmaxOfChosen, .groups = 2, .top_groups = 1}) ==
        Numbers{1, 0});
}

TEST_CASE("route refuses more experts of a token than there are to choose from") {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", {DType::kF32, {3, 8}}, ValueKind::kBatch);
  CHECK_THROWS_WITH((void)ops::route(b, x, {.top_k = 9}),
                    "[route] expected from 1 to 8 experts of a token, got 9; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::route(b, x, {.top_k = 3, .groups = 4, .top_groups = 1}),
                    "[route] expected from 1 to 2 experts of a token, got 3; check the model's sizes");
  CHECK_THROWS_WITH((void)ops::route(b, x, {.top_k = 1, .groups = 2, .top_groups = 3}),
                    "[route] expected from 1 to 2 groups to be chosen, got 3; check the model's sizes");
}
