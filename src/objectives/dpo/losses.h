// The loss types of DPO, as graphs over a few numbers a pair. Formulas and names are TRL 1.16's DPOTrainer.
#pragma once

#include "config/preference_settings.h"
#include "graph/builder.h"

namespace spillway::train::dpo {

// What the losses of a micro-batch's pairs are made of. All are f32 [rows].
struct Pairs {
  // Sums of log-probabilities over the completions.
  ValueId chosen = kNone, rejected = kNone;
  ValueId ref_chosen = kNone, ref_rejected = kNone;
  // Lengths of the completions.
  ValueId chosen_tokens = kNone, rejected_tokens = kNone;
  // Of the chosen completions, for the loss sft: each token's log-probability counts once, whatever ld_alpha says.
  ValueId chosen_text = kNone, chosen_text_tokens = kNone;
  ValueId weight = kNone;  // of use_weighting; kNone: 1
};

// The weighted sum over settings.losses of the mean over the pairs: f32 [1].
[[nodiscard]] ValueId append_loss(Builder& builder, const config::PreferenceSettings& settings, const Pairs& pairs);

}  // namespace spillway::train::dpo
