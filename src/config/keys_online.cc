// Online reinforcement learning: TRL's keys, each at top level and in axolotl's `trl:` section.
#include "config/keys.h"

namespace spillway::config {
namespace {

using Online = SpelledOnline;

// What generation_kwargs may say, too.
KeySection generation_section() {
  KeySection section{"Generated completions", {}};
  section.keys = {
      key<&Spelled::max_completion_length>("max_completion_length",
                                           "a limit of completions; of generated ones 512, of online_dpo 64, of ppo 53")
          .alias({"trl.max_completion_length", "max_new_tokens", "trl.max_new_tokens",
                  "generation_kwargs.max_new_tokens", "trl.generation_kwargs.max_new_tokens", "response_length",
                  "trl.response_length"})
          .least(1),
      key<&Spelled::online, &Online::min_new_tokens>("generation_kwargs.min_new_tokens",
                                                     "tokens before which no completion ends")
          .alias({"trl.generation_kwargs.min_new_tokens"})
          .least(0),
      key<&Spelled::online, &Online::temperature>(
          "temperature",
          "of drawing tokens, and of their log-probabilities; left out: 1, of online_dpo 0.9, of ppo 0.7")
          .alias({"trl.temperature", "generation_kwargs.temperature", "trl.generation_kwargs.temperature"})
          .above(0),
      key<&Spelled::online, &Online::top_k>("top_k", "tokens that are drawn from: the likeliest; 0: all")
          .alias({"trl.top_k", "generation_kwargs.top_k", "trl.generation_kwargs.top_k"})
          .least(0),
      key<&Spelled::online, &Online::top_p>("top_p", "the fewest tokens whose probabilities reach this")
          .alias({"trl.top_p", "generation_kwargs.top_p", "trl.generation_kwargs.top_p"})
          .above(0)
          .most(1),
      key<&Spelled::online, &Online::min_p>("min_p", "the least probability, as a share of the largest")
          .alias({"trl.min_p", "generation_kwargs.min_p", "trl.generation_kwargs.min_p"})
          .least(0)
          .most(1),
      key<&Spelled::online, &Online::repetition_penalty>("repetition_penalty",
                                                         "what logits of tokens that were there are divided by")
          .alias({"trl.repetition_penalty", "generation_kwargs.repetition_penalty",
                  "trl.generation_kwargs.repetition_penalty"})
          .above(0),
      key<&Spelled::online, &Online::num_generations>("num_generations",
                                                      "completions for each prompt; left out: 8, of rloo 2")
          .alias({"trl.num_generations"})
          .least(1),
      key<&Spelled::online, &Online::generation_batch_size>("generation_batch_size", "completions of a round")
          .alias({"trl.generation_batch_size"})
          .least(1),
      key<&Spelled::online, &Online::steps_per_generation>(
          "steps_per_generation", "the same in micro-batches; left out: gradient_accumulation_steps")
          .alias({"trl.steps_per_generation"})
          .least(1),
      key<&Spelled::online, &Online::num_iterations>("num_iterations", "how often a round is trained on")
          .alias({"trl.num_iterations"})
          .least(1),
      key<&Spelled::online, &Online::log_completions>("log_completions", "write them into completions.jsonl")
          .alias({"trl.log_completions"}),
      key<&Spelled::online, &Online::ds3_gather_for_generation>(
          "ds3_gather_for_generation",
          "all weights are on the device while completions are generated; false: those that training has elsewhere "
          "stream, layer by layer; left out: what is predicted to be faster")
          .alias({"trl.ds3_gather_for_generation"}),
  };
  return section;
}

KeySection loss_section() {
  KeySection section{"Reinforcement learning", {}};
  section.keys = {
      key<&Spelled::online, &Online::scale_rewards>("scale_rewards", "the deviation that advantages are divided by")
          .alias({"trl.scale_rewards"}),
      key<&Spelled::online, &Online::multi_objective_aggregation>(
          "multi_objective_aggregation",
          "whether rewards are added up before they are normalised; left out: yes, of "
          "gdpo no")
          .alias({"trl.multi_objective_aggregation"}),
      key<&Spelled::online, &Online::reward_clip_range>("reward_clip_range", "least and largest reward of rloo")
          .alias({"trl.reward_clip_range"}),
      key<&Spelled::online, &Online::normalize_advantages>("normalize_advantages", "of rloo, over the round")
          .alias({"trl.normalize_advantages"}),
      key<&Spelled::online, &Online::missing_eos_penalty>(
          "missing_eos_penalty", "what a completion of online_dpo or ppo loses that did not end")
          .alias({"trl.missing_eos_penalty"})
          .above(0),
      key<&Spelled::online, &Online::epsilon>("epsilon", "how far a ratio may go down from 1")
          .alias({"trl.epsilon"})
          .least(0),
      key<&Spelled::online, &Online::epsilon_high>(
          "epsilon_high", "how far it may go up; left out: as epsilon. Of cispo the cap itself")
          .alias({"trl.epsilon_high"})
          .least(0),
      key<&Spelled::online, &Online::delta>("delta", "the largest ratio of all, where there is one")
          .alias({"trl.delta"})
          .above(0),
      key<&Spelled::online, &Online::importance_sampling_level>("importance_sampling_level", "what a ratio is of")
          .alias({"trl.importance_sampling_level"}),
      key<&Spelled::online, &Online::mask_truncated_completions>("mask_truncated_completions",
                                                                 "learn nothing from completions that did not end")
          .alias({"trl.mask_truncated_completions"}),
      key<&Spelled::online, &Online::top_entropy_quantile>(
          "top_entropy_quantile", "the share of tokens that count, those of the largest entropy")
          .alias({"trl.top_entropy_quantile"})
          .above(0)
          .most(1),
      key<&Spelled::online, &Online::off_policy_mask_threshold>(
          "off_policy_mask_threshold", "how far a bad completion may be from the policy; others count for nothing")
          .alias({"trl.off_policy_mask_threshold"})
          .above(0),
      key<&Spelled::online, &Online::use_bias_correction_kl>("use_bias_correction_kl",
                                                             "weigh the distance from the reference by the ratio")
          .alias({"trl.use_bias_correction_kl"}),
      key<&Spelled::online, &Online::entropy_coef>("entropy_coef", "what the entropy counts in the loss, against it")
          .alias({"trl.entropy_coef"})
          .least(0),
      key<&Spelled::online, &Online::use_adaptive_entropy>("use_adaptive_entropy", "entropy_coef follows the entropy")
          .alias({"trl.use_adaptive_entropy"}),
      key<&Spelled::online, &Online::entropy_coef_delta>("entropy_coef_delta", "how far it moves in a step")
          .alias({"trl.entropy_coef_delta"})
          .least(0),
      key<&Spelled::online, &Online::entropy_coef_min>("entropy_coef_min", "its least value")
          .alias({"trl.entropy_coef_min"})
          .least(0),
      key<&Spelled::online, &Online::entropy_coef_max>("entropy_coef_max", "its largest value")
          .alias({"trl.entropy_coef_max"})
          .least(0),
      key<&Spelled::online, &Online::entropy_target>("entropy_target", "the entropy below which it counts")
          .alias({"trl.entropy_target"})
          .least(0),
      key<&Spelled::online, &Online::sapo_temperature_pos>("sapo_temperature_pos", "of sapo, for good completions")
          .alias({"trl.sapo_temperature_pos"})
          .above(0),
      key<&Spelled::online, &Online::sapo_temperature_neg>("sapo_temperature_neg", "of sapo, for bad completions")
          .alias({"trl.sapo_temperature_neg"})
          .above(0),
      key<&Spelled::online, &Online::vespo_k_pos>("vespo_k_pos", "of vespo, for good completions")
          .alias({"trl.vespo_k_pos"}),
      key<&Spelled::online, &Online::vespo_lambda_pos>("vespo_lambda_pos", "of vespo, for good completions")
          .alias({"trl.vespo_lambda_pos"}),
      key<&Spelled::online, &Online::vespo_k_neg>("vespo_k_neg", "of vespo, for bad completions")
          .alias({"trl.vespo_k_neg"}),
      key<&Spelled::online, &Online::vespo_lambda_neg>("vespo_lambda_neg", "of vespo, for bad completions")
          .alias({"trl.vespo_lambda_neg"}),
  };
  return section;
}

KeySection ppo_section() {
  KeySection section{"PPO", {}};
  section.keys = {
      key<&Spelled::online, &Online::value_model_path>(
          "value_model_path", "a folder of what values states: a classifier of one label; left out: reward_model_path")
          .alias({"trl.value_model_path"})
          .path(),
      key<&Spelled::online, &Online::reward_model_path>(
          "reward_model_path", "a folder of a classifier of one label that scores the ids of completions")
          .alias({"trl.reward_model_path"})
          .path(),
      key<&Spelled::online, &Online::num_ppo_epochs>("num_ppo_epochs", "how often a round is trained on")
          .alias({"trl.num_ppo_epochs"})
          .least(1)
          .most(1000),
      key<&Spelled::online, &Online::num_mini_batches>(
          "num_mini_batches", "the parts of a round; each is gradient_accumulation_steps micro-batches and one update")
          .alias({"trl.num_mini_batches"})
          .least(1)
          .most(1000),
      key<&Spelled::online, &Online::kl_coef>("kl_coef", "what the distance from the reference costs at each token")
          .alias({"trl.kl_coef"})
          .least(0),
      key<&Spelled::online, &Online::kl_estimator>("kl_estimator", "how that distance is estimated")
          .alias({"trl.kl_estimator"}),
      key<&Spelled::online, &Online::cliprange>("cliprange", "how far a ratio may go from 1")
          .alias({"trl.cliprange"})
          .least(0),
      key<&Spelled::online, &Online::cliprange_value>("cliprange_value", "how far a value may go from what it was")
          .alias({"trl.cliprange_value"})
          .least(0),
      key<&Spelled::online, &Online::vf_coef>("vf_coef", "what the loss of values counts")
          .alias({"trl.vf_coef"})
          .least(0),
      key<&Spelled::online, &Online::gamma>("gamma", "what a reward counts a token later")
          .alias({"trl.gamma"})
          .least(0)
          .most(1),
      key<&Spelled::online, &Online::lam>("lam", "of generalised advantage estimation: 0 trusts values, 1 rewards")
          .alias({"trl.lam"})
          .least(0)
          .most(1),
      key<&Spelled::online, &Online::whiten_rewards>("whiten_rewards", "rewards of a round get a variance of 1")
          .alias({"trl.whiten_rewards"}),
  };
  return section;
}

}  // namespace

std::vector<KeySection> online_sections() { return {generation_section(), loss_section(), ppo_section()}; }

}  // namespace spillway::config
