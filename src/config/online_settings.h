// Online reinforcement learning, resolved: how completions are generated, and what is made small over them. Members
// have the names of TRL's arguments; defaults are those of TRL 1.16.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/reference_sync.h"
#include "rewards/advantages.h"
#include "rewards/token_advantages.h"

namespace spillway::config {

enum class OnlineKind { kGrpo, kRloo, kOnlineDpo, kPpo };

// loss_type of GRPO.
enum class PolicyLoss { kDapo, kGrpo, kBnpo, kDrGrpo, kCispo, kSapo, kLuspo, kVespo };
// Returns true if only another of GRPO's losses reads a key: those that begin with "sapo_" or "vespo_" are that loss's.
[[nodiscard]] bool is_of_other_loss(std::string_view key, PolicyLoss loss);
// loss_type of Online DPO.
enum class OnlinePairLoss { kSigmoid, kIpo };
// The unit that a ratio of probabilities is taken over.
enum class RatioLevel { kToken, kSequence };
using RewardScale = rewards::ScaleRewards;
using rewards::KlEstimator;
using rewards::RewardAggregation;

// The sampling of completions.
struct CompletionSettings {
  int64_t max_tokens = 512;  // max_completion_length
  int64_t min_tokens = 0;    // min_new_tokens: before that no token ends a completion
  double temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
  int64_t top_k = 0;  // 0: all
};

// The weight of the entropy moves by `delta` a step: up while the entropy is at most `target`, else down. It counts
// only in steps after one whose entropy was at most that.
struct AdaptiveEntropy {
  double delta = 0.005, target = 0.2, least = 0, most = 1;
};

#include "config/keys/settings_begin.inc"
struct CompletionKeys {
#include "config/keys/completions.def"
};
struct ReinforcementKeys {
#include "config/keys/reinforcement.def"
};
struct PpoKeys {
#include "config/keys/ppo.def"
};
#include "config/keys/end.inc"

// Settings of PPO. A round is one logged step, of num_ppo_epochs x num_mini_batches updates.
struct PpoSettings : PpoKeys {
  rewards::TokenAdvantageOptions advantages;  // kl_coef, kl_estimator, gamma, lam, whiten_rewards
  std::string value_model;                    // a folder
};

struct OnlineSettings : CompletionKeys, ReinforcementKeys {
  OnlineKind kind = OnlineKind::kGrpo;
  std::string name = "grpo";  // as the config says it
  CompletionSettings completions;

  // A round is steps_per_generation micro-batches of completions, num_generations for each of its prompts; it is
  // trained on num_iterations times.
  int64_t num_generations = 8;
  int64_t steps_per_generation = 1;
  int64_t num_iterations = 1;

  PolicyLoss loss = PolicyLoss::kDapo;
  double epsilon_high = 0.2;
  std::optional<AdaptiveEntropy> adaptive_entropy;  // entropy_coef is what it begins with

  // Of the distance from the reference; 0: there is none. Of Online DPO one for each epoch.
  std::vector<double> betas = {0};
  // The last one counts in the epochs beyond, too.
  [[nodiscard]] double beta(int64_t epoch = 0) const {
    return betas[std::min(static_cast<size_t>(epoch), betas.size() - 1)];
  }
  std::optional<ReferenceSync> sync;

  RewardAggregation aggregation = RewardAggregation::kSumThenNormalize;
  // Of Online DPO.
  OnlinePairLoss pair_loss = OnlinePairLoss::kSigmoid;
  std::optional<int64_t> max_length;  // tokens of a sequence that is trained on: prompts lose their beginnings

  PpoSettings ppo;  // of PPO

  // Of RLOO.
  std::optional<std::pair<double, double>> reward_clip_range;

  // Tokens of a prompt and its completion, where the config says; the model has a limit of its own.
  std::optional<int64_t> context;
  std::optional<int64_t> sequences_at_once;  // memory.generation_sequences; none: as many as fit
  // ds3_gather_for_generation: weights that training has elsewhere are on the device while completions are generated,
  // or stream for each token position; none: whichever is predicted to be faster.
  std::optional<bool> gathers_weights;
  std::string said;  // the keys of the config, a JSON object: what functions that make rows of prompts are given

  // A row of a micro-batch is a completion, or the two of a prompt.
  [[nodiscard]] int64_t completions_per_row() const { return kind == OnlineKind::kOnlineDpo ? 2 : 1; }
  // The updates of a step; each is made of gradient_accumulation_steps micro-batches.
  [[nodiscard]] int64_t updates_per_step() const {
    return kind == OnlineKind::kPpo ? ppo.num_ppo_epochs * ppo.num_mini_batches : 1;
  }
  // Returns true if what is known of a completion is a score, less the penalty, and no advantage.
  [[nodiscard]] bool has_scores() const { return kind == OnlineKind::kOnlineDpo || kind == OnlineKind::kPpo; }
  // Returns true if the completions of a round get a new order each time they are trained on.
  [[nodiscard]] bool reshuffles() const { return kind == OnlineKind::kPpo; }
  // Completions of a round.
  [[nodiscard]] int64_t round_size(int64_t micro_batch_size) const {
    return steps_per_generation * micro_batch_size * completions_per_row();
  }
};

// As keys name it.
[[nodiscard]] std::string_view name_of(PolicyLoss loss);
[[nodiscard]] std::string_view name_of(OnlinePairLoss loss);

}  // namespace spillway::config
