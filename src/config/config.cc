#include "config/config.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace spillway::config {
namespace {

// Steps below 1 are a share of all steps, rounded up as transformers does.
int64_t steps_or_share(double steps, int64_t total_steps) {
  return static_cast<int64_t>(steps < 1 ? std::ceil(steps * static_cast<double>(total_steps)) : steps);
}

// The same of something that happens every so many steps.
int64_t steps_of(double steps, int64_t total_steps) { return std::max<int64_t>(1, steps_or_share(steps, total_steps)); }

struct Interval {
  std::optional<double> steps;
  std::optional<int64_t> per_epoch;
  std::optional<IntervalStrategy> strategy;
  double steps_by_default;  // of the strategy `steps` without a number
};

int64_t interval_steps(const Interval& wish, int64_t total_steps, int64_t steps_per_epoch) {
  if (wish.strategy == IntervalStrategy::kNo || wish.per_epoch == 0) return 0;
  if (wish.steps) return steps_of(*wish.steps, total_steps);
  if (wish.per_epoch) return std::max<int64_t>(1, div_ceil(steps_per_epoch, *wish.per_epoch));
  if (wish.strategy == IntervalStrategy::kSteps) return steps_of(wish.steps_by_default, total_steps);
  return std::max<int64_t>(1, steps_per_epoch);
}

}  // namespace

data::Objective objective_of(const Config& config) {
  if (config.reward_model) return data::Objective::kReward;
  if (config.process_reward_model) return data::Objective::kSteps;
  switch (config.rl) {
    case Rl::kNone:
      return data::Objective::kText;
    case Rl::kOrpo:
      return data::Objective::kOrpo;
    case Rl::kKto:
      return data::Objective::kUnpaired;
    default:
      return data::Objective::kPairs;
  }
}

int64_t save_interval(const Config& config, int64_t total_steps, int64_t steps_per_epoch) {
  const Interval wish{config.save_steps, config.saves_per_epoch, config.save_strategy, 500};
  return interval_steps(wish, total_steps, steps_per_epoch);
}

int64_t eval_interval(const Config& config, int64_t total_steps, int64_t steps_per_epoch) {
  if (config.test_datasets.empty() && config.val_set_size == 0) return 0;
  const Interval wish{config.eval_steps, config.evals_per_epoch, config.eval_strategy, config.logging_steps};
  return interval_steps(wish, total_steps, steps_per_epoch);
}

int64_t warmup_interval(const Config& config, int64_t total_steps) {
  if (config.warmup_steps) return steps_or_share(*config.warmup_steps, total_steps);
  return static_cast<int64_t>(std::ceil(config.warmup_ratio.value_or(0) * static_cast<double>(total_steps)));
}

std::vector<std::string> disk_paths(const Config& config) {
  if (!config.memory.disk_paths.empty()) return config.memory.disk_paths;
  return {config.output_dir + "/scratch"};
}

const std::string& tokenizer_folder(const Config& config) {
  return config.tokenizer_config.empty() ? config.base_model : config.tokenizer_config;
}

}  // namespace spillway::config
