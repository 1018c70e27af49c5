#include "config/keys.h"
#include "config/values.h"
#include "job/job.h"
#include "job/online/online_job.h"
#include "job/rows/row_job.h"
#include "rewards/rewards.h"

namespace spillway::train {
namespace {

void add_entropy(RunSettings& settings, const config::OnlineSettings& online) {
  const std::optional<config::AdaptiveEntropy>& adaptive = online.adaptive_entropy;
  settings["use_adaptive_entropy"] = config::print_value(adaptive.has_value());
  if (adaptive)
    add_numbers(settings, {{"entropy_target", adaptive->target},
                           {"entropy_coef_delta", adaptive->delta},
                           {"entropy_coef_min", adaptive->least},
                           {"entropy_coef_max", adaptive->most}});
}

void add_grpo(RunSettings& settings, const config::OnlineSettings& online) {
  settings["loss_type"] = config::name_of(online.loss);
  settings["multi_objective_aggregation"] = config::print_value(online.aggregation);
  add_numbers(settings, {{"delta", online.delta.value_or(0)},
                         {"off_policy_mask_threshold", online.off_policy_mask_threshold.value_or(0)}});
  add_entropy(settings, online);
}

void add_rloo(RunSettings& settings, const config::OnlineSettings& online) {
  const auto& range = online.reward_clip_range;
  settings["reward_clip_range"] = range ? fmt::format("{} to {}", range->first, range->second) : "";
}

void add_pairs(RunSettings& settings, const config::OnlineSettings& online) {
  settings["loss_type"] = config::name_of(online.pair_loss);
  settings["max_length"] = config::print_value(online.max_length.value_or(0));
}

// Adds the keys of a section that `objective` and its loss read, and that are settings as they are.
void add_keys(RunSettings& settings, std::string_view section, uint32_t objective,
              const config::OnlineSettings& online) {
  config::Spelled keys;
  static_cast<config::ReinforcementKeys&>(keys) = online;
  static_cast<config::PpoKeys&>(keys) = online.ppo;
  keys.advantages = online.ppo.advantages;
  RunSettings values = config::compared_values(section, objective, keys);
  std::erase_if(values, [&](const auto& one) { return config::is_of_other_loss(one.first, online.loss); });
  settings.merge(std::move(values));
}

// Adds what the kind of loss reads, and nothing that another one does.
void add_loss(RunSettings& settings, const config::OnlineSettings& online) {
  constexpr std::string_view kSection = "Reinforcement learning";
  using namespace config::read_by;
  switch (online.kind) {
    case config::OnlineKind::kGrpo:
      add_grpo(settings, online);
      settings["epsilon_high"] = config::print_value(online.epsilon_high);
      return add_keys(settings, kSection, kGrpo, online);
    case config::OnlineKind::kRloo:
      add_rloo(settings, online);
      settings["epsilon_high"] = config::print_value(online.epsilon_high);
      return add_keys(settings, kSection, kRloo, online);
    case config::OnlineKind::kOnlineDpo:
      add_pairs(settings, online);
      return add_keys(settings, kSection, kOnlineDpo, online);
    case config::OnlineKind::kPpo:
      settings["value_model_path"] = config::print_value(online.ppo.value_model);
      add_keys(settings, "PPO", kPpo, online);
      return add_keys(settings, kSection, kPpo, online);
  }
}

// Adds the reward functions and their weights.
void add_rewards(RunSettings& settings, const rewards::RewardSettings& rewards) {
  settings["reward_funcs"] = config::print_value(rewards::names_of(rewards.functions));
  std::vector<std::string> weights;
  for (const double weight : rewards.weights) weights.push_back(config::print_value(weight));
  settings["reward_weights"] = config::print_value(weights);
}

}  // namespace

void OnlineJob::add_settings(const Job& job, RunSettings& settings) const {
  const config::OnlineSettings& online = *job.config.online;
  settings["rl"] = online.name;
  add_loss(settings, online);
  if (online.kind != config::OnlineKind::kPpo) settings["rl_beta"] = print_numbers(online.betas);
  add_sync(settings, online.sync);
  for (const auto& [key, value] : {std::pair{"max_completion_length", online.completions.max_tokens},
                                   {"top_k", online.completions.top_k},
                                   {"generation_kwargs.min_new_tokens", online.completions.min_tokens},
                                   {"num_generations", online.num_generations},
                                   {"steps_per_generation", online.steps_per_generation},
                                   {"num_iterations", online.num_iterations}})
    settings[key] = config::print_value(value);
  for (const auto& [key, value] : {std::pair{"temperature", online.completions.temperature},
                                   {"top_p", online.completions.top_p},
                                   {"min_p", online.completions.min_p},
                                   {"repetition_penalty", online.completions.repetition_penalty}})
    settings[key] = config::print_value(value);
  if (job.config.rewards) add_rewards(settings, *job.config.rewards);
  add_lines(job.config, settings);
}

}  // namespace spillway::train
