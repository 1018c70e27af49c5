// Reward functions: which, and their weights.
#include <cmath>

#include "base/text.h"
#include "config/resolve.h"

namespace spillway::config {
namespace {

constexpr std::string_view kKeys[] = {"trl.reward_funcs", "trl.reward_weights", "trl.reward_timeout",
                                      "trl.reward_python"};

std::vector<double> resolve_weights(const Resolution& r) {
  const std::vector<double>& weights = r.keys.reward_weights;
  const size_t count = r.keys.reward_funcs.size();
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
    for (const std::string_view key : kKeys) r.ignore(key, "nothing generates completions");
    return {};
  }
  if (keys.reward_funcs.empty())
    throw input_error(r.where("trl.reward_funcs"), "expected reward functions, got none; name at least one");
  if (keys.reward_python.empty())
    throw input_error(r.where("trl.reward_python"), "expected an interpreter, got nothing; write python3");
  return rewards::RewardSettings{.functions = keys.reward_funcs,
                                 .weights = resolve_weights(r),
                                 .timeout_seconds = keys.reward_timeout,
                                 .python = keys.reward_python,
                                 .chat_template_kwargs = keys.chat_template_kwargs.json};
}

}  // namespace spillway::config
