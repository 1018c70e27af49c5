// Computes advantages of tokens from the score of each completion of a round and the log-probabilities and values of
// its tokens: the rewards, generalised advantage estimation (Schulman et al., 2016) and whitening of TRL 1.10's
// PPOTrainer (trl/experimental/ppo), computed in f64 from f32 numbers. Pure; safe from any thread.
//
// State t of a completion is the text before its token t. If another completion of the round is longer, it has one
// state more, behind its last token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace spillway::rewards {

// The estimator of a token's divergence from the reference (http://joschu.net/blog/kl-approx.html).
enum class KlEstimator {
  kK1,  // log p - log ref
  kK3,  // ref / p - 1 - log(ref / p)
};

// The options; members have the names of TRL's arguments.
struct TokenAdvantageOptions {
  double kl_coef = 0.05;
  KlEstimator kl_estimator = KlEstimator::kK1;
  double gamma = 1, lam = 0.95;
  bool whiten_rewards = false;
};

// A completion of n tokens.
struct ScoredTokens {
  std::span<const float> logps, ref_logps;  // f32[n]
  std::span<const float> values;            // f32[n + 1], of each state and of the one behind the last token
  double score = 0;
};

// The result for a completion of n tokens, f32.
struct TokenAdvantages {
  std::vector<float> advantages;  // [n]
  std::vector<float> returns;     // [states]: n or n + 1
};

struct RoundAdvantages {
  std::vector<TokenAdvantages> completions;
  // Means over the completions of sums over their tokens: TRL's objective/*.
  double kl = 0, entropy = 0, non_score_reward = 0;
};

// Computes the advantages of a round, whose longest completion decides which of the others have a state behind their
// last token. REQUIRES: each completion has a token.
[[nodiscard]] RoundAdvantages token_advantages(std::span<const ScoredTokens> round,
                                               const TokenAdvantageOptions& options);

}  // namespace spillway::rewards
