#include "config/keys.h"

namespace spillway::config {
namespace {

KeySection preference_section() {
  KeySection section{"Preferences", {}};
  section.keys = {
      key<&Spelled::rl>("rl", "training by preferences: which objective"),
      key<&Spelled::reward_model>("reward_model", "training a reward model"),
      key<&Spelled::process_reward_model>("process_reward_model",
                                          "training a model that scores the steps of solutions"),
      key<&Spelled::max_prompt_length>("max_prompt_length", "a limit of preference rows' prompts")
          .alias({"max_prompt_len"})
          .least(1),
      key<&Spelled::dpo_loss_type>(
          "dpo_loss_type",
          "the losses that compare completions, several of which add up, or grpo's; left out: "
          "sigmoid, or rl's own; without rl that of text: nll, or dft, where each token counts "
          "by its probability")
          .alias({"loss_type", "trl.loss_type"}),
      key<&Spelled::dpo_loss_weights>("dpo_loss_weights", "what each of them is multiplied by; left out: 1")
          .alias({"loss_weights"}),
      key<&Spelled::rl_beta>(
          "rl_beta",
          "how far the policy may go from the reference, one number; of online_dpo also one for each epoch, "
          "the last one for those beyond, too; left out: 0.1, of grpo 0 and of rloo 0.05")
          .alias({"dpo_beta", "beta", "trl.beta"})
          .least(0)
          .most(1e6),
      key<&Spelled::orpo_alpha>("orpo_alpha", "rl_beta of orpo").above(0).most(1e6),
      key<&Spelled::dpo_label_smoothing>("dpo_label_smoothing",
                                         "the share of pairs that may be the wrong way round; of the losses robust, "
                                         "exo_pair, aot, aot_unpaired, and of cpo's sigmoid")
          .alias({"label_smoothing"})
          .least(0)
          .most(1),
      key<&Spelled::f_divergence_type>("f_divergence_type", "dpo's distance from the reference"),
      key<&Spelled::f_alpha_divergence_coef>("f_alpha_divergence_coef", "alpha of alpha_divergence"),
      key<&Spelled::dpo_ld_alpha>("dpo_ld_alpha", "what dpo counts tokens with beyond the shorter completion's length")
          .alias({"ld_alpha"})
          .least(0)
          .most(1),
      key<&Spelled::dpo_use_weighting>("dpo_use_weighting",
                                       "dpo weighs pairs by how likely the policy holds them (WPO)")
          .alias({"use_weighting"}),
      key<&Spelled::discopop_tau>("discopop_tau", "the temperature of discopop's mixture").above(0),
      key<&Spelled::kto_desirable_weight>("kto_desirable_weight", "of the loss of kto's wanted completions")
          .alias({"desirable_weight"})
          .least(0),
      key<&Spelled::kto_undesirable_weight>("kto_undesirable_weight", "of the loss of kto's others")
          .alias({"undesirable_weight"})
          .least(0),
      key<&Spelled::cpo_alpha>("cpo_alpha", "of the loss of the chosen completion's text, in cpo and simpo").least(0),
      key<&Spelled::simpo_gamma>("simpo_gamma", "the margin of the loss simpo"),
      key<&Spelled::alpha>("alpha", "cpo's reward of a probability p is (1 - p^-alpha) / alpha (AlphaPO); 0: log p"),
      key<&Spelled::center_rewards_coefficient>("center_rewards_coefficient",
                                                "of the square of a pair's summed rewards, for rewards around 0")
          .least(0),
      key<&Spelled::num_labels>("num_labels",
                                "scores of the classifier: 1 of a reward model, 2 of a process reward model")
          .least(1)
          .most(1 << 20),
      key<&Spelled::disable_dropout>(
          "disable_dropout",
          "lora_dropout is not used; left out: so for preferences and online_dpo, not for grpo, gdpo and rloo"),
      key<&Spelled::ref_model>("ref_model",
                               "the reference: another model's folder, of the same vocabulary; left out: the model as "
                               "it is before the first step")
          .path(),
      key<&Spelled::precompute_ref_log_probs>("precompute_ref_log_probs",
                                              "score all rows by the reference before the first step, and keep none"),
      key<&Spelled::sync_ref_model>("sync_ref_model", "the reference follows the policy").alias({"trl.sync_ref_model"}),
      key<&Spelled::ref_model_mixup_alpha>(
          "ref_model_mixup_alpha", "the policy's share each time it does; 0.9 where a config has axolotl's section trl")
          .alias({"trl.ref_model_mixup_alpha"})
          .least(0)
          .most(1),
      key<&Spelled::ref_model_sync_steps>("ref_model_sync_steps",
                                          "steps between; 64 where a config has axolotl's section trl")
          .alias({"trl.ref_model_sync_steps"})
          .least(1),
  };
  return section;
}

}  // namespace

std::vector<KeySection> preference_sections() { return {preference_section()}; }

}  // namespace spillway::config
