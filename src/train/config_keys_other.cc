#include "train/config_keys.h"

namespace spillway::train {
namespace {

constexpr std::string_view kPreference = "preference training";
constexpr std::string_view kOnline = "training on generated answers";

KeySection reinforcement_section() {
  KeySection section{"Preferences and reinforcement learning", {}};
  section.keys = {
      not_yet("rl", "preference training and reinforcement learning"),
      not_yet("reward_model", "training a reward model"),
      not_yet("process_reward_model", "training a reward model"),
      not_yet("num_labels", "training a classifier"),
      not_yet("center_rewards_coefficient", "training a reward model"),
      not_yet("trl", kOnline),
      not_yet("vllm", kOnline),
      not_yet("ref_model", kPreference),
      not_yet("kd_trainer", "distillation"),
      not_yet("diffusion", "diffusion models"),
  };
  // Each sets an objective that only `rl` can choose.
  for (const std::string_view name : {"rl_beta",
                                      "beta",
                                      "dpo_beta",
                                      "dpo_loss_type",
                                      "dpo_loss_weights",
                                      "dpo_label_smoothing",
                                      "dpo_use_weighting",
                                      "dpo_padding_free",
                                      "dpo_use_liger_kernel",
                                      "dpo_use_logits_to_keep",
                                      "dpo_norm_loss",
                                      "dpo_generate_during_eval",
                                      "orpo_alpha",
                                      "rpo_alpha",
                                      "kto_desirable_weight",
                                      "kto_undesirable_weight",
                                      "desirable_weight",
                                      "undesirable_weight",
                                      "simpo_gamma",
                                      "cpo_alpha",
                                      "precompute_ref_log_probs",
                                      "precompute_ref_batch_size",
                                      "loss_weights",
                                      "label_smoothing",
                                      "ld_alpha",
                                      "f_divergence_type",
                                      "f_alpha_divergence_coef",
                                      "use_weighting",
                                      "discopop_tau",
                                      "reference_free",
                                      "sync_ref_model",
                                      "ref_model_mixup_alpha",
                                      "ref_model_sync_steps",
                                      "disable_dropout"}) {
    section.keys.push_back(not_yet(name, kPreference));
  }
  for (const std::string_view name : {"num_generations",
                                      "num_generations_eval",
                                      "max_completion_length",
                                      "num_iterations",
                                      "epsilon",
                                      "epsilon_high",
                                      "delta",
                                      "scale_rewards",
                                      "reward_funcs",
                                      "reward_weights",
                                      "temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "repetition_penalty",
                                      "use_vllm",
                                      "importance_sampling_level",
                                      "mask_truncated_completions",
                                      "generation_batch_size",
                                      "steps_per_generation",
                                      "multi_objective_aggregation",
                                      "top_entropy_quantile",
                                      "log_completions"}) {
    section.keys.push_back(not_yet(name, kOnline));
  }
  section.keys.push_back(not_yet("plugins", "a plugin")
                             .or_values({"axolotl.integrations.liger.LigerPlugin",
                                         "axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"}));
  add_ignored(section, "it sets a key that is off",
              {"vllm_*", "kd_*", "ds3_gather_for_generation", "grpo_*", "ebft*", "generation_kwargs",
               "chat_template_kwargs", "ignore_bias_buffers", "cache_implementation"});
  return section;
}

}  // namespace

std::vector<KeySection> other_sections() { return {reinforcement_section()}; }

}  // namespace spillway::train
