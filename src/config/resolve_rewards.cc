// Reward functions: which, and their weights.
#include <cmath>

#include "base/text.h"
#include "config/resolve.h"

namespace spillway::config {
namespace {

constexpr std::string_view kTrainingKeys[] = {"trl.reward_funcs", "trl.reward_model_name_or_path", "trl.reward_weights",
                                              "trl.reward_timeout", "trl.reward_python"};

// A reward model stands first, as TRL's scripts have it. PPO's reads the ids of completions, grpo's and rloo's their
// text.
std::vector<rewards::RewardEntry> resolve_functions(const Resolution& r) {
  const Spelled& keys = r.keys;
  std::vector<rewards::RewardEntry> functions = keys.reward_funcs;
  const auto add_model = [&](const std::string& model, std::string_view key, bool reads_ids) {
    if (model.empty()) return;
    functions.insert(functions.begin(), {.kind = rewards::RewardEntry::Kind::kModel,
                                         .name = model,
                                         .folder = model,
                                         .reads_ids = reads_ids,
                                         .where = r.where(key)});
  };
  add_model(keys.reward_model_name_or_path, "trl.reward_model_name_or_path", false);
  if (keys.rl == Rl::kPpo) add_model(keys.reward_model_path, "reward_model_path", true);
  return functions;
}

std::vector<double> resolve_weights(const Resolution& r, size_t count) {
  const std::vector<double>& weights = r.keys.reward_weights;
  if (weights.empty()) return std::vector<double>(count, 1.0);
  if (weights.size() != count)
    throw input_error(r.where("trl.reward_weights"), "expected {} weights, one for each reward function, got {}; {}",
                      count, weights.size(), weights.size() < count ? "add some" : "remove some");
  return weights;
}

}  // namespace

std::optional<rewards::RewardSettings> resolve_rewards(const Resolution& r, ConfigUse use) {
  const Spelled& keys = r.keys;
  if (use != ConfigUse::kRewards && !is_online(keys)) {
    for (const std::string_view key : kTrainingKeys) r.ignore(key, "nothing generates completions");
    return {};
  }
  std::vector<rewards::RewardEntry> functions = resolve_functions(r);
  if (functions.empty())
    throw input_error(r.where("trl.reward_funcs"), "expected reward functions, got none; name at least one{}",
                      keys.rl == Rl::kPpo ? ", or reward_model_path" : "");
  std::vector<double> weights = resolve_weights(r, functions.size());
  if (keys.reward_python.empty())
    throw input_error(r.where("trl.reward_python"), "expected an interpreter, got nothing; write python3");
  return rewards::RewardSettings{.functions = std::move(functions),
                                 .weights = std::move(weights),
                                 .timeout_seconds = keys.reward_timeout,
                                 .python = keys.reward_python,
                                 .chat_template_kwargs = keys.rows.chat_template_kwargs.json};
}

}  // namespace spillway::config
