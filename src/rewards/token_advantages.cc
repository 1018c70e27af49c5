#include "rewards/token_advantages.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace spillway::rewards {
namespace {

using Numbers = std::vector<double>;  // of a completion

constexpr double kWhiteningEpsilon = 1e-8;  // added to a variance

// Divides all numbers by their deviation (n - 1), and moves their mean to 0 if `shifts_mean`.
void whiten(std::vector<Numbers>& all, bool shifts_mean) {
  double count = 0, sum = 0;
  for (const Numbers& numbers : all) {
    count += static_cast<double>(numbers.size());
    for (const double one : numbers) sum += one;
  }
  const double mean = sum / count;
  double squares = 0;
  for (const Numbers& numbers : all)
    for (const double one : numbers) squares += (one - mean) * (one - mean);
  const double factor = 1 / std::sqrt(squares / std::max(1.0, count - 1) + kWhiteningEpsilon);
  for (Numbers& numbers : all)
    for (double& one : numbers) one = (one - mean) * factor + (shifts_mean ? 0 : mean);
}

double distance(double logp, double ref_logp, KlEstimator estimator) {
  const double log_ratio = ref_logp - logp;
  return estimator == KlEstimator::kK1 ? -log_ratio : std::exp(log_ratio) - 1 - log_ratio;
}

// Returns the reward of each state: the penalty of its token, and the score at the last state.
Numbers rewards_of(const ScoredTokens& completion, bool has_end_state, const TokenAdvantageOptions& options,
                   double completions, RoundAdvantages& sums) {
  Numbers rewards;
  for (size_t t = 0; t < completion.logps.size(); ++t) {
    const double kl = distance(completion.logps[t], completion.ref_logps[t], options.kl_estimator);
    rewards.push_back(-options.kl_coef * kl);
    sums.kl += kl / completions;
    sums.entropy -= completion.logps[t] / completions;
    sums.non_score_reward -= options.kl_coef * kl / completions;
  }
  if (has_end_state) rewards.push_back(0);
  rewards.back() += completion.score;
  return rewards;
}

// Returns the advantage of each state. `values` are those of the states; the value behind the last one is 0.
Numbers estimate(const Numbers& rewards, std::span<const float> values, const TokenAdvantageOptions& options) {
  Numbers advantages(rewards.size());
  double next_value = 0, next_advantage = 0;
  for (size_t t = rewards.size(); t-- > 0;) {
    const double surprise = rewards[t] + options.gamma * next_value - values[t];
    next_advantage = surprise + options.gamma * options.lam * next_advantage;
    advantages[t] = next_advantage;
    next_value = values[t];
  }
  return advantages;
}

}  // namespace

RoundAdvantages token_advantages(std::span<const ScoredTokens> round, const TokenAdvantageOptions& options) {
  RoundAdvantages result;
  size_t longest = 0;
  for (const ScoredTokens& one : round) longest = std::max(longest, one.logps.size());
  std::vector<Numbers> rewards;
  for (const ScoredTokens& one : round) {
    SPILLWAY_CHECK(
        !one.logps.empty() && one.ref_logps.size() == one.logps.size() && one.values.size() == one.logps.size() + 1,
        "{} tokens with {} reference log-probabilities and {} values", one.logps.size(), one.ref_logps.size(),
        one.values.size());
    rewards.push_back(rewards_of(one, one.logps.size() < longest, options, static_cast<double>(round.size()), result));
  }
  if (options.whiten_rewards) whiten(rewards, false);
  std::vector<Numbers> advantages;
  for (size_t i = 0; i < round.size(); ++i) {
    const Numbers& of_states = advantages.emplace_back(estimate(rewards[i], round[i].values, options));
    TokenAdvantages& one = result.completions.emplace_back();
    for (size_t t = 0; t < of_states.size(); ++t)
      one.returns.push_back(static_cast<float>(of_states[t] + round[i].values[t]));
  }
  for (size_t i = 0; i < round.size(); ++i) advantages[i].resize(round[i].logps.size());
  whiten(advantages, true);
  for (size_t i = 0; i < round.size(); ++i)
    result.completions[i].advantages.assign(advantages[i].begin(), advantages[i].end());
  return result;
}

}  // namespace spillway::rewards
