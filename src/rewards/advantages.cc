#include "rewards/advantages.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/index.h"

namespace spillway::rewards {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = 1e-4;  // added to deviations
constexpr double kZeroStd = 1e-8;  // torch.isclose's distance from 0

// The statistics of the numbers among `values`, without NaN; the deviation is with n - 1 (Bessel).
struct Statistics {
  double count = 0, mean = kNone, std = kNone;

  explicit Statistics(std::span<const double> values) {
    double sum = 0;
    for (const double value : values) {
      if (std::isnan(value)) continue;
      sum += value;
      ++count;
    }
    if (count == 0) return;
    mean = sum / count;
    if (count == 1) return;
    double squares = 0;
    for (const double value : values) {
      if (!std::isnan(value)) squares += (value - mean) * (value - mean);
    }
    std = std::sqrt(squares / (count - 1));
  }

  [[nodiscard]] bool has_zero_std() const { return std <= kZeroStd; }
};

template <typename Use>
void each_group(std::span<const double> values, int64_t num_generations, const Use& use) {
  const auto group = static_cast<size_t>(num_generations);
  SPILLWAY_CHECK(num_generations > 0 && values.size() % group == 0, "{} completions in groups of {}", values.size(),
                 num_generations);
  for (size_t begin = 0; begin < values.size(); begin += group) use(begin, values.subspan(begin, group));
}

std::vector<float> numbers_or_zero(std::span<const double> values) {
  std::vector<float> result;
  for (const double value : values) result.push_back(std::isnan(value) ? 0.F : static_cast<float>(value));
  return result;
}

std::vector<double> column(const RewardTable& table, int64_t function) {
  std::vector<double> values;
  for (int64_t i = 0; i < table.completions; ++i) values.push_back(table.at(i, function));
  return values;
}

// Returns the share of groups whose values are all the same.
double share_without_spread(std::span<const double> values, int64_t num_generations) {
  double same = 0, count = 0;
  each_group(values, num_generations, [&](size_t, std::span<const double> group) {
    ++count;
    if (Statistics(group).has_zero_std()) ++same;
  });
  return count == 0 ? 0 : same / count;
}

Advantages sum_then_normalize(std::span<const double> rewards, int64_t num_generations, ScaleRewards scale) {
  const Statistics round(rewards);
  std::vector<double> result(rewards.begin(), rewards.end());
  each_group(rewards, num_generations, [&](size_t begin, std::span<const double> group) {
    const Statistics own(group);
    const double std = scale == ScaleRewards::kBatch ? round.std : own.std;
    for (size_t i = 0; i < group.size(); ++i) {
      double& value = result[begin + i];
      value -= own.mean;
      if (scale != ScaleRewards::kNone) value /= std + kEpsilon;
    }
  });
  if (scale == ScaleRewards::kBatch) return {numbers_or_zero(result), round.has_zero_std() ? 1.0 : 0.0};
  return {numbers_or_zero(result), share_without_spread(rewards, num_generations)};
}

Advantages normalize_then_sum(const RewardTable& table, std::span<const double> weights, int64_t num_generations) {
  RewardTable normal{table.completions, table.functions, std::vector<float>(table.values.size())};
  for (int64_t function = 0; function < table.functions; ++function) {
    const std::vector<double> rewards = column(table, function);
    each_group(rewards, num_generations, [&](size_t begin, std::span<const double> group) {
      const Statistics own(group);
      for (size_t i = 0; i < group.size(); ++i) {
        nth(normal.values, static_cast<int64_t>(begin + i) * table.functions + function) =
            static_cast<float>((group[i] - own.mean) / (own.std + kEpsilon));
      }
    });
  }
  std::vector<double> rewards = weighted_sum(normal, weights);
  // A reward of a function counts as scored even if its group is too small for a deviation.
  const std::vector<double> scored = weighted_sum(table, weights);
  for (size_t i = 0; i < rewards.size(); ++i) {
    if (std::isnan(rewards[i]) && !std::isnan(scored[i])) rewards[i] = 0;
  }
  const Statistics round(rewards);
  for (double& reward : rewards) reward = (reward - round.mean) / (round.std + kEpsilon);
  return {numbers_or_zero(rewards), round.has_zero_std() ? 1.0 : 0.0};
}

}  // namespace

RewardTable table_of(std::span<const RewardOutput> outputs, int64_t completions) {
  RewardTable table{completions, static_cast<int64_t>(outputs.size()), {}};
  for (int64_t i = 0; i < completions; ++i) {
    for (const RewardOutput& output : outputs) {
      const auto& reward = output.rewards.at(static_cast<size_t>(i));
      table.values.push_back(static_cast<float>(reward.value_or(kNone)));
    }
  }
  return table;
}

std::vector<double> weighted_sum(const RewardTable& table, std::span<const double> weights) {
  SPILLWAY_CHECK(static_cast<int64_t>(weights.size()) == table.functions, "{} weights of {} functions", weights.size(),
                 table.functions);
  std::vector<double> sums;
  for (int64_t i = 0; i < table.completions; ++i) {
    double sum = 0;
    bool is_scored = false;
    for (int64_t function = 0; function < table.functions; ++function) {
      const double reward = table.at(i, function);
      if (std::isnan(reward)) continue;
      is_scored = true;
      sum += static_cast<float>(nth(weights, function)) * reward;
    }
    sums.push_back(is_scored ? sum : kNone);
  }
  return sums;
}

Advantages advantages_of(const RewardTable& table, std::span<const double> weights, int64_t num_generations,
                         const GroupedAdvantages& options) {
  if (options.aggregation == RewardAggregation::kNormalizeThenSum)
    return normalize_then_sum(table, weights, num_generations);
  return sum_then_normalize(weighted_sum(table, weights), num_generations, options.scale);
}

Advantages advantages_of(const RewardTable& table, std::span<const double> weights, int64_t num_generations,
                         const LeaveOneOutAdvantages& options) {
  std::vector<double> rewards = weighted_sum(table, weights);
  for (size_t i = 0; i < rewards.size(); ++i) {
    // A missing reward stays missing: std::clamp's comparisons with NaN are all false.
    if (options.clip_range) rewards[i] = std::clamp(rewards[i], options.clip_range->first, options.clip_range->second);
    if (options.beta != 0) rewards[i] -= options.beta * options.kl[i];
  }
  std::vector<double> result = rewards;
  each_group(rewards, num_generations, [&](size_t begin, std::span<const double> group) {
    const Statistics own(group);
    const double others = own.count - 1;
    for (size_t i = 0; i < group.size(); ++i) {
      const double mean = others > 0 ? (own.mean * own.count - group[i]) / others : kNone;
      result[begin + i] -= mean;
    }
  });
  if (options.normalize) {
    const Statistics round(result);
    for (double& value : result) value = (value - round.mean) / (round.std + kEpsilon);
  }
  return {numbers_or_zero(result), share_without_spread(rewards, num_generations)};
}

Advantages advantages_of(const RewardTable& table, std::span<const double> weights, int64_t num_generations,
                         const PairScores& options) {
  std::vector<double> scores = weighted_sum(table, weights);
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) scores[i] = 0;
    if (options.is_truncated.at(i)) scores[i] -= options.missing_eos_penalty;
  }
  return {numbers_or_zero(scores), share_without_spread(scores, num_generations)};
}

std::vector<std::pair<std::string, double>> reward_metrics(const RewardTable& table, std::span<const double> weights,
                                                           std::span<const std::string> names) {
  std::vector<std::pair<std::string, double>> metrics;
  for (int64_t function = 0; function < table.functions; ++function) {
    const Statistics own(column(table, function));
    const std::string& name = nth(names, function);
    metrics.emplace_back(fmt::format("rewards/{}/mean", name), own.mean);
    metrics.emplace_back(fmt::format("rewards/{}/std", name), own.std);
  }
  const Statistics all(weighted_sum(table, weights));
  metrics.emplace_back("reward", all.mean);
  metrics.emplace_back("reward_std", all.std);
  return metrics;
}

}  // namespace spillway::rewards
