#include "rewards/token_advantages.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace spillway;
using namespace spillway::rewards;

namespace {

const std::vector<float> kLogps = {-1.5F, -0.25F, -2}, kRefLogps = {-1, -0.5F, -2}, kValues = {0.5F, -1, 0.25F, 2};
const std::vector<float> kShortLogps = {-0.75F}, kShortRefLogps = {-1.25F}, kShortValues = {1, -0.5F};

std::vector<ScoredTokens> round_of_two() {
  return {{kLogps, kRefLogps, kValues, 3}, {kShortLogps, kShortRefLogps, kShortValues, -2}};
}

// Computes the sum that defines generalised advantage estimation, from the rewards of all states.
std::vector<double> summed_advantages(const std::vector<double>& rewards, const std::vector<float>& values,
                                      double gamma, double lam) {
  std::vector<double> advantages;
  for (size_t t = 0; t < rewards.size(); ++t) {
    double sum = 0;
    for (size_t k = t; k < rewards.size(); ++k) {
      const double next = k + 1 < rewards.size() ? values[k + 1] : 0;
      sum += std::pow(gamma * lam, static_cast<double>(k - t)) * (rewards[k] + gamma * next - values[k]);
    }
    advantages.push_back(sum);
  }
  return advantages;
}

void check_returns(const TokenAdvantages& ours, const std::vector<double>& advantages,
                   const std::vector<float>& values) {
  REQUIRE(ours.returns.size() == advantages.size());
  for (size_t t = 0; t < advantages.size(); ++t)
    CHECK(ours.returns[t] == doctest::Approx(advantages[t] + values[t]).epsilon(1e-6));
}

}  // namespace

TEST_CASE("a completion that is shorter than others of its round has its score at the state behind its last token") {
  const TokenAdvantageOptions options{.kl_coef = 0.5, .gamma = 0.9, .lam = 0.8};
  const RoundAdvantages round = token_advantages(round_of_two(), options);
  REQUIRE(round.completions.size() == 2);
  // The distances are -0.5, 0.25 and 0; that of the short one is 0.5.
  check_returns(round.completions[0], summed_advantages({0.25, -0.125, 3}, kValues, 0.9, 0.8), kValues);
  check_returns(round.completions[1], summed_advantages({-0.25, -2}, kShortValues, 0.9, 0.8), kShortValues);
  CHECK(round.completions[0].advantages.size() == 3);
  CHECK(round.completions[1].advantages.size() == 1);
  CHECK(round.kl == doctest::Approx((-0.25 + 0.5) / 2));
  CHECK(round.entropy == doctest::Approx((3.75 + 0.75) / 2));
  CHECK(round.non_score_reward == doctest::Approx(-0.5 * round.kl));
}

TEST_CASE("advantages of a round's tokens have a mean of 0 and a deviation of 1") {
  double sum = 0, squares = 0, count = 0;
  for (const TokenAdvantages& one : token_advantages(round_of_two(), {}).completions) {
    for (const float advantage : one.advantages) {
      sum += advantage;
      squares += advantage * advantage;
      ++count;
    }
  }
  CHECK(sum == doctest::Approx(0).epsilon(1e-6));
  CHECK(squares / (count - 1) == doctest::Approx(1).epsilon(1e-6));
}

TEST_CASE("the estimator k3 is never below 0, and 0 where policy and reference agree") {
  const TokenAdvantageOptions options{.kl_coef = 1, .kl_estimator = KlEstimator::kK3};
  const RoundAdvantages round = token_advantages(round_of_two(), options);
  const auto k3 = [](double log_ratio) { return std::exp(log_ratio) - 1 - log_ratio; };
  CHECK(round.kl == doctest::Approx((k3(0.5) + k3(-0.25) + k3(-0.5)) / 2));
  check_returns(round.completions[0], summed_advantages({-k3(0.5), -k3(-0.25), 3}, kValues, 1, 0.95), kValues);
}

TEST_CASE("whitened rewards have a deviation of 1 around the mean that they had") {
  const TokenAdvantageOptions options{.kl_coef = 0.5, .whiten_rewards = true};
  const std::vector<double> rewards = {0.25, -0.125, 3, -0.25, -2};
  double mean = 0, variance = 0;
  for (const double one : rewards) mean += one / 5;
  for (const double one : rewards) variance += (one - mean) * (one - mean) / 4;
  std::vector<double> whitened;
  for (const double one : rewards) whitened.push_back((one - mean) / std::sqrt(variance + 1e-8) + mean);
  const RoundAdvantages round = token_advantages(round_of_two(), options);
  check_returns(round.completions[0], summed_advantages({whitened.begin(), whitened.begin() + 3}, kValues, 1, 0.95),
                kValues);
  check_returns(round.completions[1], summed_advantages({whitened.begin() + 3, whitened.end()}, kShortValues, 1, 0.95),
                kShortValues);
}

TEST_CASE("a round of one token learns nothing of it, and says no NaN") {
  const std::vector<ScoredTokens> round = {{kShortLogps, kShortRefLogps, kShortValues, 1}};
  const RoundAdvantages result = token_advantages(round, {.whiten_rewards = true});
  CHECK(result.completions[0].advantages == std::vector<float>{0});
  CHECK(std::isfinite(result.completions[0].returns.at(0)));
}
