// The losses of GRPO and of what came of it, as graphs over a few numbers a token. Formulas and names are TRL 1.16's
// GRPOTrainer.
#pragma once

#include "config/online_settings.h"
#include "graph/builder.h"

namespace spillway::train {

// 1 where a number of f32 is above the limit, else 0; a constant to gradients.
[[nodiscard]] ValueId is_above(Builder& builder, ValueId x, double limit);
// x within the limits; the gradient passes where x is the result.
[[nodiscard]] ValueId clamp(Builder& builder, ValueId x, double least, double most);

// The larger of a loss and of that with a clipped number in it, for each number.
struct ClippedLoss {
  ValueId loss = kNone;
  ValueId excess = kNone;  // by which clipping makes it larger
};
// PPO's -min(ratio A, within A) (Schulman et al., 2017), where `within` is the ratio within its limits.
[[nodiscard]] ClippedLoss clipped_surrogate(Builder& builder, ValueId ratio, ValueId within, ValueId advantages);

// Whether a loss clips the ratio itself.
[[nodiscard]] bool is_clipped(config::PolicyLoss loss);
// Whether it is a mean over the tokens of a round, not of a micro-batch or a completion.
[[nodiscard]] bool is_mean_over_round(config::PolicyLoss loss);

// What the loss of a micro-batch is made of.
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
  // Settings and builder are borrowed.
  GrpoLoss(Builder& builder, const config::OnlineSettings& settings, const GrpoTokens& tokens);

  // f32 [1], the micro-batch's loss. `entropy_coef` f32 [1] where the entropy is rewarded. Once.
  [[nodiscard]] ValueId total(ValueId entropy_coef);

  // For metrics, f32 [tokens], of constants: the distance from the reference, 0 without one; 1 where a ratio was
  // clipped.
  [[nodiscard]] ValueId kl() const { return kl_; }
  [[nodiscard]] ValueId low_clipped();
  [[nodiscard]] ValueId high_clipped();
  // 1 for the tokens that the loss of the policy acts on: those that count, or the ones of the largest entropy.
  [[nodiscard]] ValueId acting() const { return acting_; }
  // VESPO's weights, f32 [rows]; kNone of other losses.
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
