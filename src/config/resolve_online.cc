// Online reinforcement learning: how large a round is, and which of the keys mean something to its loss.
#include <algorithm>
#include <vector>

#include "base/text.h"
#include "config/keys.h"
#include "config/programs.h"
#include "config/resolve.h"
#include "config/values.h"

namespace spillway::config {
namespace {

template <typename Loss>
struct OnlineLossName {
  std::string_view name;
  Loss loss;
};
constexpr OnlineLossName<PolicyLoss> kPolicyLosses[] = {{"dapo", PolicyLoss::kDapo},   {"grpo", PolicyLoss::kGrpo},
                                                        {"bnpo", PolicyLoss::kBnpo},   {"dr_grpo", PolicyLoss::kDrGrpo},
                                                        {"cispo", PolicyLoss::kCispo}, {"sapo", PolicyLoss::kSapo},
                                                        {"luspo", PolicyLoss::kLuspo}, {"vespo", PolicyLoss::kVespo}};

constexpr int64_t kPairLength = 512;  // TRL's max_length of Online DPO
constexpr OnlineLossName<OnlinePairLoss> kPairLosses[] = {{"sigmoid", OnlinePairLoss::kSigmoid},
                                                          {"ipo", OnlinePairLoss::kIpo}};

// The first is the default.
template <typename Loss, size_t kCount>
Loss loss_of(const Resolution& r, const OnlineLossName<Loss> (&losses)[kCount]) {
  const std::vector<std::string>& said = r.keys.dpo_loss_type;
  if (!r.given("dpo_loss_type") || said.empty()) return losses[0].loss;
  std::vector<std::string_view> names;
  for (const OnlineLossName<Loss>& one : losses) names.push_back(one.name);
  if (said.size() > 1)
    throw input_error(r.where("dpo_loss_type"), "expected one loss, got {}; only dpo adds several up", said.size());
  const auto* const found = std::find_if(std::begin(losses), std::end(losses),
                                         [&](const OnlineLossName<Loss>& one) { return one.name == said.front(); });
  if (found != std::end(losses)) return found->loss;
  const std::string_view nearest = nearest_name(said.front(), names);
  throw input_error(r.where("dpo_loss_type"), "expected {}, got {}; {}", joined_names(names), quote(said.front()),
                    nearest.empty() ? "write one of them" : fmt::format("did you mean {}?", nearest));
}

// A round is whole micro-batches and whole groups. steps_per_generation counts the micro-batches of one rank.
void resolve_round(const Resolution& r, const RankSettings& ranks, const BatchSettings& batches,
                   OnlineSettings& online) {
  const Spelled& keys = r.keys;
  const int64_t micro = batches.micro_batch_size;
  if (online.kind == OnlineKind::kOnlineDpo) {
    online.num_generations = 2;
    return;
  }
  if (online.kind == OnlineKind::kPpo) {
    online.num_generations = 1;
    online.steps_per_generation = batches.gradient_accumulation_steps * keys.num_mini_batches;
    return;
  }
  online.num_generations = keys.num_generations.value_or(online.kind == OnlineKind::kRloo ? 2 : 8);
  if (online.num_generations < 2)
    throw input_error(
        r.where("num_generations"),
        "expected at least 2, got {}: a completion is measured against the others of its prompt; raise it",
        online.num_generations);
  online.steps_per_generation =
      keys.steps_per_generation ? *keys.steps_per_generation * ranks.count : batches.gradient_accumulation_steps;
  if (keys.generation_batch_size) {
    r.exclude("generation_batch_size", true, "steps_per_generation", true);
    if (*keys.generation_batch_size % micro != 0)
      throw input_error(r.where("generation_batch_size"),
                        "expected a multiple of micro_batch_size, {}, got {}; change one of them", micro,
                        *keys.generation_batch_size);
    online.steps_per_generation = *keys.generation_batch_size / micro;
  }
  const int64_t round = online.round_size(micro);
  if (round % online.num_generations == 0) return;
  const bool is_of_ranks = ranks.count > 1 && !keys.generation_batch_size;
  const std::string steps = is_of_ranks
                                ? fmt::format("{} x {} ranks", online.steps_per_generation / ranks.count, ranks.count)
                                : fmt::format("{}", online.steps_per_generation);
  throw input_error(r.where(keys.generation_batch_size ? "generation_batch_size" : "num_generations"),
                    "expected a round of {} completions (micro_batch_size {} x steps_per_generation {}) to be whole "
                    "groups, got groups of {}; change one of these numbers",
                    round, micro, steps, online.num_generations);
}

void resolve_loss(const Resolution& r, OnlineSettings& online) {
  const Spelled& keys = r.keys;
  if (online.kind == OnlineKind::kGrpo) online.loss = loss_of(r, kPolicyLosses);
  online.epsilon_high = keys.epsilon_high.value_or(keys.epsilon);
  if (keys.use_adaptive_entropy) {
    online.adaptive_entropy = {keys.entropy_coef_delta, keys.entropy_target, keys.entropy_coef_min,
                               keys.entropy_coef_max};
  } else {
    for (const char* key : {"entropy_coef_delta", "entropy_target", "entropy_coef_min", "entropy_coef_max"})
      r.ignore(key, "use_adaptive_entropy is off");
  }
  for (const auto& [key, value] : compared_values("Reinforcement learning", read_by::kGrpo, keys))
    if (is_of_other_loss(key, online.loss))
      r.ignore(key, fmt::format("loss_type is not {}", key.substr(0, key.find('_'))));
  if (online.loss == PolicyLoss::kLuspo && online.importance_sampling_level != RatioLevel::kSequence)
    r.note("loss_type: luspo is meant for importance_sampling_level: sequence");
}

// Resolves the settings of Online DPO alone.
void resolve_pairs(const Resolution& r, const data::RowOptions& rows, OnlineSettings& online) {
  online.pair_loss = loss_of(r, kPairLosses);
  online.max_length = r.given("sequence_len") || r.given("max_length") ? rows.sequence_len : kPairLength;
  if (*online.max_length <= online.completions.max_tokens)
    throw input_error(r.where("max_length"),
                      "expected more tokens than max_new_tokens, {}, so that something of a prompt is left, got {}; "
                      "raise it",
                      online.completions.max_tokens, *online.max_length);
}

// Resolves the settings of PPO alone.
PpoSettings resolve_ppo(const Resolution& r) {
  const Spelled& keys = r.keys;
  const std::string& value = keys.value_model_path.empty() ? keys.reward_model_path : keys.value_model_path;
  if (value.empty())
    throw input_error(r.where("value_model_path"),
                      "expected the folder of a value model beside rl: ppo, got none; name a classifier of one label, "
                      "as reward_model: true writes it, or a model of text, which gets a new score");
  return {keys, keys.advantages, value};
}

void resolve_rewards(const Resolution& r, OnlineSettings& online) {
  const Spelled& keys = r.keys;
  online.aggregation = keys.multi_objective_aggregation.value_or(
      r.keys.rl == Rl::kGdpo ? RewardAggregation::kNormalizeThenSum : RewardAggregation::kSumThenNormalize);
  const std::vector<double>& range = keys.reward_clip_range;
  if (range.empty()) return;
  if (range.size() != 2 || range[0] > range[1])
    throw input_error(r.where("reward_clip_range"),
                      "expected the least and the largest reward, got {} numbers{}; "
                      "write for example [-1, 1]",
                      range.size(), range.size() == 2 ? ", the first the larger" : "");
  online.reward_clip_range = {range[0], range[1]};
}

// PPO's distance from the reference is in its rewards: kl_coef.
double usual_beta(OnlineKind kind) {
  if (kind == OnlineKind::kGrpo || kind == OnlineKind::kPpo) return 0;
  return kind == OnlineKind::kRloo ? 0.05 : 0.1;
}

std::vector<double> betas_of(const Resolution& r, OnlineKind kind) {
  if (kind != OnlineKind::kOnlineDpo || !r.given("rl_beta")) return {resolve_beta(r, usual_beta(kind))};
  const std::vector<double>& said = r.keys.rl_beta;
  if (said.empty())
    throw input_error(r.where("rl_beta"), "expected a number, or one for each epoch, got none; write it");
  if (std::find(said.begin(), said.end(), 0.0) != said.end())
    throw input_error(r.where("rl_beta"), "expected {} above 0, got 0; raise it",
                      said.size() == 1 ? "a number" : "numbers");
  return said;
}

void resolve_reference(const Resolution& r, OnlineSettings& online) {
  if (online.kind == OnlineKind::kPpo) {
    for (const char* key : {"sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps"})
      r.ignore(key, "the reference of ppo does not change, as in TRL");
    return r.ignore("rl_beta", "ppo has kl_coef");
  }
  online.betas = betas_of(r, online.kind);
  if (online.beta() == 0 && r.keys.sync_ref_model)
    throw input_error(
        r.where("sync_ref_model"),
        "expected a reference to follow the policy, got beta 0, which keeps none; set beta, or remove it");
  online.sync = resolve_reference_sync(r);
}

std::optional<int64_t> sequences_at_once(const Resolution& r) {
  const std::string& said = r.keys.memory_generation_sequences;
  if (said == "auto") return {};
  int64_t number = 0;
  read_value(YamlNode::scalar(said), {"", 0, "memory.generation_sequences"}, {.least = 1}, number);
  return number;
}

OnlineKind kind_of(Rl rl) {
  if (rl == Rl::kRloo) return OnlineKind::kRloo;
  if (rl == Rl::kPpo) return OnlineKind::kPpo;
  return rl == Rl::kOnlineDpo ? OnlineKind::kOnlineDpo : OnlineKind::kGrpo;
}

int64_t usual_length(OnlineKind kind) {
  if (kind == OnlineKind::kPpo) return 53;
  return kind == OnlineKind::kOnlineDpo ? 64 : 512;
}

double usual_temperature(OnlineKind kind) {
  if (kind == OnlineKind::kPpo) return 0.7;
  return kind == OnlineKind::kOnlineDpo ? 0.9 : 1;
}

CompletionSettings resolve_completions(const Resolution& r, OnlineKind kind) {
  const Spelled& keys = r.keys;
  CompletionSettings completions{.max_tokens = keys.max_completion_length.value_or(usual_length(kind)),
                                 .min_tokens = keys.min_new_tokens,
                                 .temperature = keys.temperature.value_or(usual_temperature(kind)),
                                 .top_p = keys.top_p,
                                 .min_p = keys.min_p,
                                 .repetition_penalty = keys.repetition_penalty,
                                 .top_k = keys.top_k};
  if (completions.min_tokens > completions.max_tokens)
    throw input_error(r.where("generation_kwargs.min_new_tokens"),
                      "expected at most max_completion_length, {}, got {}; lower it", completions.max_tokens,
                      completions.min_tokens);
  return completions;
}

template <typename Loss, size_t kCount>
std::string_view name_in(const OnlineLossName<Loss> (&losses)[kCount], Loss loss) {
  return std::find_if(std::begin(losses), std::end(losses), [&](const auto& one) { return one.loss == loss; })->name;
}

// Returns why the objective reads no key of another: rounds of groups, which GRPO and RLOO share, are told apart.
std::string why_unread(const ConfigKey& key, OnlineKind kind) {
  if (key.readers != (read_by::kGrpo | read_by::kRloo)) return fmt::format("it belongs to {}", key.owners);
  return kind == OnlineKind::kOnlineDpo
             ? "online_dpo trains once on two completions of each prompt"
             : "ppo has num_ppo_epochs, num_mini_batches and cliprange, and a completion a prompt";
}

// Calls `visit` with each key of the sections that only objectives with generated completions read.
template <typename Visit>
void for_online_keys(const Visit& visit) {
  for (const KeySection& section : config_sections()) {
    if (section.title != "Generated completions" && section.title != "Reinforcement learning" && section.title != "PPO")
      continue;
    for (const ConfigKey& key : section.keys) {
      if (key.type != nullptr) visit(key);
    }
  }
}

void ignore_others_keys(const Resolution& r, OnlineKind kind) {
  for_online_keys([&](const ConfigKey& key) {
    if (key.readers != 0 && (key.readers & reader_of(r.keys)) == 0) r.ignore(key.name, why_unread(key, kind));
  });
  if (kind == OnlineKind::kPpo) r.ignore("max_grad_norm", "ppo does not clip gradients, as in TRL");
}

int64_t iterations_of(const Spelled& keys, OnlineKind kind) {
  if (kind == OnlineKind::kPpo) return keys.num_ppo_epochs;
  return kind == OnlineKind::kOnlineDpo ? 1 : keys.num_iterations;
}

}  // namespace

bool is_of_other_loss(std::string_view key, PolicyLoss loss) {
  return (key.starts_with("sapo_") && loss != PolicyLoss::kSapo) ||
         (key.starts_with("vespo_") && loss != PolicyLoss::kVespo);
}

std::string_view name_of(PolicyLoss loss) { return name_in(kPolicyLosses, loss); }
bool is_policy_loss(std::string_view name) {
  return std::any_of(std::begin(kPolicyLosses), std::end(kPolicyLosses),
                     [&](const auto& one) { return one.name == name; });
}
std::string_view name_of(OnlinePairLoss loss) { return name_in(kPairLosses, loss); }

std::optional<OnlineSettings> resolve_online(const Resolution& r, const RankSettings& ranks,
                                             const BatchSettings& batches, const data::RowOptions& rows) {
  const Spelled& keys = r.keys;
  if (!is_online(keys)) {
    for_online_keys([&](const ConfigKey& key) {
      if (key.name != "max_completion_length")
        r.ignore(key.name, "it belongs to completions that the run generates, which rl: grpo asks for");
    });
    return {};
  }
  const OnlineKind kind = kind_of(keys.rl);
  OnlineSettings online{keys, keys, kind, std::string(print_value(keys.rl)), resolve_completions(r, kind)};
  online.num_iterations = iterations_of(keys, kind);
  online.sequences_at_once = sequences_at_once(r);
  online.gathers_weights = keys.ds3_gather_for_generation;
  resolve_round(r, ranks, batches, online);
  resolve_loss(r, online);
  resolve_rewards(r, online);
  resolve_reference(r, online);
  if (kind == OnlineKind::kOnlineDpo) {
    resolve_pairs(r, rows, online);
  } else if (r.given("sequence_len") || r.given("max_length")) {
    online.context = rows.sequence_len;
  }
  if (kind == OnlineKind::kPpo) {
    online.ppo = resolve_ppo(r);
    if (program_of(r.loaded) == Program::kTrl)
      r.note(
          "completions end at the model's end tokens, as with TRL's stop_token: eos; left out, TRL lets them run on");
  }
  if (kind == OnlineKind::kRloo || kind == OnlineKind::kPpo)
    r.ignore("dpo_loss_type", fmt::format("{} has one loss", online.name));
  ignore_others_keys(r, kind);
  return online;
}

}  // namespace spillway::config
