// The losses of GRPO and its variants as graphs over a few numbers per token. Formulas and names are those of TRL
// 1.16's GRPOTrainer.
#pragma once

#include "config/online_settings.h"
#include "graph/builder.h"

namespace spillway::train {

// Returns 1 where x, f32, is above the limit, else 0. Has no gradient.
[[nodiscard]] ValueId is_above(Builder& builder, ValueId x, double limit);
// Returns x clamped to the limits. The gradient passes where x is within them.
[[nodiscard]] ValueId clamp(Builder& builder, ValueId x, double least, double most);

// The elementwise maximum of a loss and of the same loss with a clipped input.
struct ClippedLoss {
  ValueId loss = kNone;
  ValueId unclipped = kNone;
};
// Returns 1 where clipping makes the loss larger, else 0. Has no gradient.
[[nodiscard]] ValueId is_raised(Builder& builder, const ClippedLoss& clipped);
// Returns PPO's loss -min(ratio A, within A) (Schulman et al., 2017), where `within` is the clipped ratio.
[[nodiscard]] ClippedLoss clipped_surrogate(Builder& builder, ValueId ratio, ValueId within, ValueId advantages);

// Returns true if a loss clips the ratio itself.
[[nodiscard]] bool is_clipped(config::PolicyLoss loss);
// Returns true if the loss is a mean over the tokens of a round, not of a micro-batch or a completion.
[[nodiscard]] bool is_mean_over_round(config::PolicyLoss loss);

// The inputs of the loss of a micro-batch.
struct GrpoTokens {
  // f32 [tokens]; 0 outside of completions.
  ValueId log_prob = kNone, old_log_prob = kNone, ref_log_prob = kNone, entropy = kNone;  // ref: kNone without beta
  ValueId mask = kNone;                                                                   // 1 for the tokens that count
  ValueId weights = kNone;                                                                // what their losses count
  // f32 [rows].
  ValueId advantages = kNone, tokens = kNone;
  ValueId seq_offsets = kNone;
};

class GrpoLoss {
 public:
  // Borrows settings and builder.
  GrpoLoss(Builder& builder, const config::OnlineSettings& settings, const GrpoTokens& tokens);

  // Appends the loss of the micro-batch, f32 [1]. `entropy_coef` is f32 [1] if the entropy is rewarded. Call it once.
  [[nodiscard]] ValueId total(ValueId entropy_coef);

  // Values for metrics, f32 [tokens], without gradients: the KL estimate to the reference (0 without one), and 1 where
  // a ratio was clipped, else 0.
  [[nodiscard]] ValueId kl() const { return kl_; }
  [[nodiscard]] ValueId low_clipped();
  [[nodiscard]] ValueId high_clipped();
  // 1 for the tokens that the policy loss acts on: those that count, or those among them with the largest entropy.
  [[nodiscard]] ValueId acting() const { return acting_; }
  // VESPO's weights, f32 [rows]; kNone for other losses.
  [[nodiscard]] ValueId phi() const { return phi_; }

 private:
  [[nodiscard]] ValueId spread(ValueId per_row);
  [[nodiscard]] ValueId row_mean(ValueId per_token);
  [[nodiscard]] ValueId policy_loss();
  [[nodiscard]] ValueId clipped_loss();
  [[nodiscard]] ValueId sapo_loss();
  [[nodiscard]] ValueId weighted_log_prob(ValueId weight);
  [[nodiscard]] ValueId gamma_weight();
  [[nodiscard]] ValueId is_on_policy();
  [[nodiscard]] ValueId add_reference(ValueId loss);

  Builder& b_;
  const config::OnlineSettings& settings_;
  GrpoTokens in_;
  // f32 [tokens].
  ValueId advantages_, log_ratio_, full_ratio_, ratio_,
      acting_;  // full: without delta; acting: the mask, or a part of it
  ValueId zero_, kl_, phi_ = kNone;
};

}  // namespace spillway::train
