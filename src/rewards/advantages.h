// Computes advantages of completions from the rewards of a round: the formulas of TRL 1.16's GRPO, RLOO and Online DPO
// trainers (trl/trainer/grpo_trainer.py, rloo_trainer.py, trl/experimental/online_dpo), computed in f64 from f32
// rewards. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/index.h"
#include "rewards/rewards.h"

namespace spillway::rewards {

// The rewards of a round: f32[completions, functions], NaN if a function does not apply. The completions of a group (a
// prompt) follow each other.
struct RewardTable {
  int64_t completions = 0, functions = 0;
  std::vector<float> values;

  [[nodiscard]] float at(int64_t completion, int64_t function) const {
    return nth(values, completion * functions + function);
  }
};

// Collects outputs into a table. REQUIRES: each output has a reward for each completion.
[[nodiscard]] RewardTable table_of(std::span<const RewardOutput> outputs, int64_t completions);

// Returns f64[completions]: the weighted sum over the functions that apply; NaN if none does.
[[nodiscard]] std::vector<double> weighted_sum(const RewardTable& table, std::span<const double> weights);

// TRL's scale_rewards: the divisor of a reward's distance from its group's mean.
enum class ScaleRewards {
  kGroup,  // the group's standard deviation
  kBatch,  // the round's
  kNone,
};

// TRL's multi_objective_aggregation.
enum class RewardAggregation {
  kSumThenNormalize,
  kNormalizeThenSum,  // GDPO: each function by itself within its group, then the sum over the round
};

struct GroupedAdvantages {
  ScaleRewards scale = ScaleRewards::kGroup;  // of kSumThenNormalize
  RewardAggregation aggregation = RewardAggregation::kSumThenNormalize;
};

// The options of RLOO: the advantage is the distance from the mean of the others of the group.
struct LeaveOneOutAdvantages {
  std::optional<std::pair<double, double>> clip_range;  // of the summed rewards, before the KL
  double beta = 0;                                      // rewards lose beta x kl
  std::span<const double> kl;  // f64[completions], sums over tokens; may be empty where beta is 0
  bool normalize = false;      // over the round
};

// The options of Online DPO: the score itself is the value, 0 if no function applies.
struct PairScores {
  double missing_eos_penalty = 0;  // subtracted from completions that did not end
  std::vector<bool> is_truncated;  // [completions]
};

struct Advantages {
  std::vector<float> values;  // f32[completions], 0 where nothing can be learned
  // The share of completions whose rewards equal all those that they are compared with.
  double frac_reward_zero_std = 0;
};

// Compute the advantages. REQUIRES: table.completions is a multiple of num_generations, one weight per function.
[[nodiscard]] Advantages advantages_of(const RewardTable& table, std::span<const double> weights,
                                       int64_t num_generations, const GroupedAdvantages& options);
[[nodiscard]] Advantages advantages_of(const RewardTable& table, std::span<const double> weights,
                                       int64_t num_generations, const LeaveOneOutAdvantages& options);
[[nodiscard]] Advantages advantages_of(const RewardTable& table, std::span<const double> weights,
                                       int64_t num_generations, const PairScores& options);

// Returns TRL's metrics of a round's rewards: rewards/NAME/mean and rewards/NAME/std, reward and reward_std. A metric
// without numbers is NaN, and so is the deviation of less than two.
[[nodiscard]] std::vector<std::pair<std::string, double>> reward_metrics(const RewardTable& table,
                                                                         std::span<const double> weights,
                                                                         std::span<const std::string> names);

}  // namespace spillway::rewards
