// The loss types of DPO as graphs over a few numbers per pair. Formulas and names are those of TRL 1.16's DPOTrainer.
#pragma once

#include "config/preference_settings.h"
#include "graph/builder.h"

namespace spillway::train::dpo {

// The inputs of the losses of a micro-batch's pairs, all f32 [rows].
struct Pairs {
  // Sums of log-probabilities over the completions.
  ValueId chosen = kNone, rejected = kNone;
  ValueId ref_chosen = kNone, ref_rejected = kNone;
  // The lengths of the completions.
  ValueId chosen_tokens = kNone, rejected_tokens = kNone;
  // For the loss sft, the same of the chosen completions with each token's log-probability counted once, whatever
  // ld_alpha is.
  ValueId chosen_text = kNone, chosen_text_tokens = kNone;
  ValueId weight = kNone;  // of use_weighting; kNone: 1
};

// Returns the weighted sum over settings.losses of the mean over the pairs, f32 [1].
[[nodiscard]] ValueId append_loss(Builder& builder, const config::PreferenceSettings& settings, const Pairs& pairs);

}  // namespace spillway::train::dpo
