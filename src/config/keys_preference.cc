#include "config/keys.h"

namespace spillway::config {
namespace {

KeySection preference_section() {
  KeySection section{"Preferences", {}};
  section.keys = {
      key<&Config::rl>("rl", "preference training and reinforcement learning").rows_only(),
      key<&Config::reward_model>("reward_model", "training a reward model").rows_only(),
      key<&Config::process_reward_model>("process_reward_model", "training a reward model").rows_only(),
      key<&Config::max_prompt_length>("max_prompt_length", "a limit of preference rows' prompts")
          .alias({"max_prompt_len"})
          .least(1)
          .or_values({"512"})
          .rows_only(),
      not_yet("dpo_loss_type", "preference training").or_values({"sigmoid"}),
      not_yet("rl_beta", "preference training").alias({"dpo_beta", "beta"}),
      not_yet("dpo_loss_weights", "preference training").alias({"loss_weights"}),
      not_yet("dpo_label_smoothing", "preference training").alias({"label_smoothing"}).or_values({"0", "0.0"}),
      not_yet("dpo_use_weighting", "preference training").alias({"use_weighting"}),
      not_yet("dpo_ld_alpha", "preference training").alias({"ld_alpha"}),
      not_yet("kto_desirable_weight", "preference training").alias({"desirable_weight"}),
      not_yet("kto_undesirable_weight", "preference training").alias({"undesirable_weight"}),
  };
  add_not_yet(section, "preference training",
              {"orpo_alpha", "rpo_alpha", "simpo_gamma", "cpo_alpha", "precompute_ref_log_probs", "reference_free",
               "f_divergence_type", "f_alpha_divergence_coef", "discopop_tau", "ref_model", "sync_ref_model",
               "ref_model_mixup_alpha", "ref_model_sync_steps", "disable_dropout"});
  add_not_yet(section, "training a reward model", {"num_labels", "center_rewards_coefficient"});
  add_refused(section, "TRL dropped it",
              {"dpo_norm_loss", "dpo_generate_during_eval", "generate_during_eval", "dpo_use_logits_to_keep"},
              kLeaveOut);
  add_ignored(section, "it concerns kernels of other trainers; here the result is the same",
              {"dpo_use_liger_kernel", "dpo_padding_free", "precompute_ref_batch_size", "padding_value"});
  for (ConfigKey& one : section.keys) one.spares_rows = true;
  return section;
}

KeySection online_section() {
  constexpr std::string_view kOnline = "training on generated answers";
  KeySection section{"Reinforcement learning", {}};
  section.keys = {
      key<&Config::max_completion_length>("max_completion_length", "a limit of completions").least(1).rows_only()};
  add_not_yet(section, kOnline,
              {"num_generations",
               "num_generations_eval",
               "num_iterations",
               "epsilon",
               "epsilon_high",
               "delta",
               "scale_rewards",
               "reward_funcs",
               "reward_weights",
               "reward_clip_range",
               "normalize_advantages",
               "temperature",
               "top_p",
               "top_k",
               "min_p",
               "repetition_penalty",
               "importance_sampling_level",
               "mask_truncated_completions",
               "generation_batch_size",
               "steps_per_generation",
               "multi_objective_aggregation",
               "top_entropy_quantile",
               "max_tool_calling_iterations",
               "off_policy_mask_threshold",
               "entropy_coef*",
               "entropy_target",
               "use_adaptive_entropy",
               "use_bias_correction_kl",
               "sapo_temperature_*",
               "vespo_*",
               "cast_lm_head_to_fp32"});
  // axolotl keeps these in a section.
  add_not_yet(section, kOnline,
              {"trl.beta",
               "trl.max_completion_length",
               "trl.num_generations",
               "trl.num_iterations",
               "trl.epsilon",
               "trl.epsilon_high",
               "trl.loss_type",
               "trl.scale_rewards",
               "trl.reward_funcs",
               "trl.reward_weights",
               "trl.reward_num_workers",
               "trl.rollout_func",
               "trl.temperature",
               "trl.top_p",
               "trl.top_k",
               "trl.min_p",
               "trl.repetition_penalty",
               "trl.generation_kwargs",
               "trl.chat_template_kwargs",
               "trl.generation_batch_size",
               "trl.importance_sampling_level",
               "trl.mask_truncated_completions",
               "trl.multi_objective_aggregation",
               "trl.off_policy_mask_threshold",
               "trl.use_bias_correction_kl",
               "trl.use_adaptive_entropy",
               "trl.entropy_coef",
               "trl.entropy_coef_delta",
               "trl.entropy_coef_max",
               "trl.entropy_coef_min",
               "trl.entropy_target",
               "trl.sync_ref_model",
               "trl.ref_model_mixup_alpha",
               "trl.ref_model_sync_steps",
               "trl.async_prefetch",
               "trl.prefetch_depth",
               "trl.use_data_producer",
               "trl.replay_buffer_size",
               "trl.replay_recompute_logps",
               "trl.reroll_max_groups",
               "trl.reroll_start_fraction",
               "trl.skip_zero_advantage_batches",
               "trl.streaming_min_groups",
               "trl.streaming_partial_batch"});
  add_ignored(section, "answers are generated in this process, with the weights that are trained",
              {"use_vllm", "vllm_*", "vllm.*", "trl.use_vllm", "trl.vllm_*", "use_transformers_*",
               "transformers_continuous_batching_config", "ds3_gather_for_generation"});
  add_ignored(section, "it concerns kernels of other trainers; here the result is the same",
              {"trl.use_liger_loss", "trl.log_multimodal"});
  add_ignored(section, "completions are not logged",
              {"log_completions*", "log_multimodal", "log_unique_prompts", "num_completions_to_print",
               "trl.log_completions", "trl.num_completions_to_print"});
  add_ignored(section, "it belongs to a key that is off",
              {"grpo_*", "generation_kwargs", "ignore_bias_buffers", "cache_implementation"});
  return section;
}

}  // namespace

std::vector<KeySection> preference_sections() { return {preference_section(), online_section()}; }

}  // namespace spillway::config
