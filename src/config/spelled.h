// What a config says, key by key, as the table of keys reads it: axolotl's keys and TRL's, their meaning and their
// defaults. Members carry the names of the keys. std::optional is of keys that may be left out without a value of
// their own; everything else holds the default until a key sets it. Only config/ reads this: resolve.h makes it a
// Config.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/online_settings.h"
#include "data/dataset_options.h"
#include "text/tokenizer.h"

namespace spillway::config {

enum class Adapter { kNone, kLora, kQlora };
enum class WeightType { kAuto, kF32, kBf16, kF16 };
enum class Rl { kNone, kDpo, kIpo, kSimpo, kCpo, kOrpo, kKto, kGrpo, kGdpo, kRloo, kOnlineDpo, kPpo };
enum class AutoBool { kFalse, kTrue, kAuto };
enum class Bf16 { kFalse, kTrue, kAuto, kFull };
enum class Checkpointing { kAuto, kOff, kOn, kOffload, kOffloadDisk };  // kAuto: the plan decides
enum class LayerOffloading { kOff, kHost, kDisk };
enum class IntervalStrategy { kNo, kSteps, kEpoch };
enum class SaveStrategy { kNo, kSteps, kEpoch, kBest };
enum class PackingScope { kBatch, kDataset };  // which rows TRL's packing looks at together: 1000, or all
enum class SamplingStrategy { kRandom, kSequential, kGroupByLength };

using data::DatasetConfig;
using data::DatasetType;
using data::ExcessLength;
using data::LengthRules;
using data::PackingStrategy;
using SpecialTokens = text::SpecialTokenNames;
using data::TrainOnEos;
using data::TruncationMode;

// Keys that replace those of config.json: a JSON object as text, with its keys in order; empty: none.
struct ConfigOverrides {
  std::string json;
};

// An entry of `datasets` and its like.
struct SpelledDataset {
  DatasetConfig config;
  std::string message_field_role, message_field_content;  // older spellings of entries of message_property_mappings
};

// `memory:`, sizes as TierBudget has them.
struct SpelledMemory {
  std::string device, host, disk;
  std::vector<std::string> disk_paths;  // empty: OUTPUT/scratch
  PlanMode plan = PlanMode::kAuto;
  bool disk_checksum = false;
  std::string generation_sequences = "auto";
  // A section names the tier, but leaves to the plan what goes there.
  bool uses_host = false, uses_disk = false;
};

// accelerate's budgets: a device's number, `cpu` or `disk` -> a size as written.
struct MaxMemory {
  std::map<std::string, std::string, std::less<>> sizes;
};

// A section in another program's words; what it says is merged into our keys before they are read.
struct ForeignSection {};

// lr_scheduler_kwargs: texts, as which options there are, and what they take, the schedule says.
struct SchedulerArg {
  std::string name, text;
  std::string where;  // for messages
};
struct SchedulerArgs {
  std::vector<SchedulerArg> items;
};

// axolotl's bnb_config_kwargs: the arguments of transformers' BitsAndBytesConfig.
struct BnbConfig {
  WeightCoding quant_type = WeightCoding::kNf4;  // of 4 bits
  bool use_double_quant = true;
  std::vector<std::string> skip_modules;
  std::string compute_dtype, quant_storage;  // accepted: products are in the run's dtype, codes are bytes
  double threshold = 6;                      // accepted: activations are not rounded
};

// Of online reinforcement learning: TRL's keys, at top level or in axolotl's `trl:` section.
struct SpelledOnline {
  std::optional<int64_t> num_generations, generation_batch_size, steps_per_generation;
  int64_t num_iterations = 1;
  int64_t top_k = 0, min_new_tokens = 0;
  std::optional<double> temperature;
  double top_p = 1, min_p = 0, repetition_penalty = 1;
  double epsilon = 0.2;
  std::optional<double> epsilon_high, delta, off_policy_mask_threshold;
  RatioLevel importance_sampling_level = RatioLevel::kToken;
  RewardScale scale_rewards = RewardScale::kGroup;
  std::optional<RewardAggregation> multi_objective_aggregation;
  bool mask_truncated_completions = false, use_bias_correction_kl = true, normalize_advantages = false;
  double top_entropy_quantile = 1;
  double entropy_coef = 0, entropy_coef_delta = 0.005, entropy_target = 0.2, entropy_coef_min = 0, entropy_coef_max = 1;
  bool use_adaptive_entropy = false;
  double sapo_temperature_pos = 1, sapo_temperature_neg = 1.05;
  double vespo_k_pos = 2, vespo_lambda_pos = 3, vespo_k_neg = 3, vespo_lambda_neg = 2;
  std::vector<double> reward_clip_range;
  double missing_eos_penalty = 0;
  int64_t num_ppo_epochs = 4, num_mini_batches = 1;
  double kl_coef = 0.05, cliprange = 0.2, cliprange_value = 0.2, vf_coef = 0.1, gamma = 1, lam = 0.95;
  KlEstimator kl_estimator = KlEstimator::kK1;
  bool whiten_rewards = false;
  std::string value_model_path, reward_model_path;
  bool log_completions = false;
  std::optional<bool> ds3_gather_for_generation;
};

// FastVideo's words for gradient_checkpointing.
enum class VideoCheckpointing { kNone, kFull };

enum class MixedPrecision { kNo, kBf16, kF16 };

// Of video transformers; those of FastVideo that have other names here come last.
struct SpelledVideo {
  std::string component = "transformer";
  data::WeightingScheme weighting_scheme = data::WeightingScheme::kUniform;
  double logit_mean = 0, logit_std = 1, mode_scale = 1.29;
  double flow_shift = 3;
  double min_timestep = 0, max_timestep = 1000;
  bool precondition_outputs = false;
  double training_cfg_rate = 0;
  int64_t text_len = 512, num_latent_t = 0;
  AutoBool normalize_latents = AutoBool::kAuto;
  std::vector<double> eval_timesteps;
  bool use_ema = false;
  double ema_decay = 0.9999;
  int64_t ema_start_step = 0;
  bool log_samples = false;
  std::vector<int64_t> clip_shape;
  std::string data_path;
  bool lora_training = false;
  std::string betas;
  VideoCheckpointing enable_gradient_checkpointing_type = VideoCheckpointing::kNone;
  std::optional<MixedPrecision> mixed_precision;
  std::optional<int64_t> lr_num_cycles;
  std::optional<double> lr_power, min_lr_ratio;
};

struct Spelled {
  // Model
  std::string base_model;
  ConfigOverrides overrides_of_model_config;
  std::string revision_of_model;
  std::string tokenizer_config;  // a folder; empty: base_model
  SpecialTokens special_tokens;
  std::string eos_token, pad_token;  // TRL's, of the vocabulary
  bool resize_token_embeddings_to_32x = false;
  bool reinit_weights = false;

  // Adapter
  Adapter adapter = Adapter::kNone;
  std::optional<bool> use_peft;  // TRL's
  int64_t lora_r = 0;
  double lora_alpha = 0;
  double lora_dropout = 0;
  TargetModules lora_target_modules;
  bool lora_target_linear = false;
  std::vector<std::string> lora_modules_to_save;
  bool lora_fan_in_fan_out = false;  // accepted: no weight of these models is transposed
  std::string lora_model_dir;
  bool peft_use_rslora = false, peft_use_dora = false;
  std::vector<PatternNumber> lora_rank_pattern, lora_alpha_pattern;
  std::vector<int64_t> peft_layers_to_transform;
  std::vector<std::string> peft_layers_pattern;
  LoraInit peft_init_lora_weights;
  std::optional<int64_t> loftq_bits;  // peft.loftq_config.loftq_bits
  std::optional<double> loraplus_lr_ratio;
  double loraplus_lr_embedding = 1e-6;
  std::vector<std::string> unfrozen_parameters;
  double neftune_noise_alpha = 0;
  bool load_in_4bit = false, load_in_8bit = false;
  BnbConfig bnb_config_kwargs;

  // Data
  std::vector<SpelledDataset> datasets, test_datasets;
  std::vector<SpelledDataset> pretraining_dataset;
  bool pretraining_sample_concatenation = false;
  bool streaming = false;
  int64_t streaming_multipack_buffer_size = 10000;
  double val_set_size = 0;
  std::optional<double> test_split_size;  // TRL's
  std::string chat_template, chat_template_jinja;
  data::TemplateVariables chat_template_kwargs;
  std::optional<std::vector<std::string>> eot_tokens;
  bool train_on_inputs = false;
  std::string dataset_name, dataset_config, dataset_train_split, dataset_test_split;  // TRL's
  std::optional<bool> completion_only_loss;
  bool assistant_only_loss = false;
  std::string dataset_text_field = "text";
  bool dataset_exact_deduplication = false;
  Rl rl = Rl::kNone;
  bool reward_model = false, process_reward_model = false;
  std::optional<int64_t> max_prompt_length, max_completion_length;
  std::vector<std::string> dpo_loss_type;
  std::vector<double> dpo_loss_weights;
  std::vector<double> rl_beta;
  std::optional<double> orpo_alpha;
  double dpo_label_smoothing = 0;
  FDivergence f_divergence_type = FDivergence::kReverseKl;
  double f_alpha_divergence_coef = 0.5;
  std::optional<double> dpo_ld_alpha;
  bool dpo_use_weighting = false;
  double discopop_tau = 0.05;
  double kto_desirable_weight = 1, kto_undesirable_weight = 1;
  double cpo_alpha = 1, simpo_gamma = 0.5, alpha = 0;
  std::optional<double> center_rewards_coefficient;
  std::optional<int64_t> num_labels;
  std::optional<bool> disable_dropout;
  std::string ref_model;
  bool precompute_ref_log_probs = false, sync_ref_model = false;
  double ref_model_mixup_alpha = 0.6;
  int64_t ref_model_sync_steps = 512;
  SpelledOnline online;
  SpelledVideo video;
  std::vector<rewards::RewardEntry> reward_funcs;
  std::string reward_model_name_or_path;  // TRL's
  std::vector<double> reward_weights;
  double reward_timeout = 120;  // seconds
  std::string reward_python = "python3";
  std::optional<bool> shuffle_merged_datasets;  // left out: yes, but for TRL's packing
  std::string dataset_prepared_path;
  std::optional<int64_t> dataset_processes;
  bool curriculum_sampling = false;
  bool dataloader_drop_last = false;
  std::optional<int64_t> data_seed;
  bool skip_prepare_dataset = false;

  // Length and batches
  int64_t sequence_len = 512;
  std::optional<int64_t> eval_sequence_len;
  std::optional<int64_t> max_length;  // TRL's, with TRL's rules of length
  ExcessLength excess_length_strategy = ExcessLength::kDrop;
  TruncationMode truncation_mode = TruncationMode::kKeepStart;
  int64_t min_sample_len = 2;
  bool sample_packing = false, sample_packing_sequentially = false;
  int64_t sample_packing_bin_size = 200;
  bool packing = false;  // TRL's
  PackingStrategy packing_strategy = PackingStrategy::kBfd;
  PackingScope packing_scope = PackingScope::kBatch;
  bool group_by_length = false;
  SamplingStrategy train_sampling_strategy = SamplingStrategy::kRandom;
  std::optional<bool> eval_sample_packing;
  AutoBool padding_free = AutoBool::kAuto;
  int64_t micro_batch_size = 1;
  int64_t gradient_accumulation_steps = 1;
  std::optional<int64_t> batch_size;
  int64_t dp_shard_size = 1, dp_replicate_size = 1;
  std::optional<int64_t> eval_batch_size;

  // Optimisation
  double num_epochs = 1;
  std::optional<int64_t> max_steps;
  Optimizer optimizer;
  OptimArgs optim_args;
  double learning_rate = 0;
  LrScheduler lr_scheduler;
  SchedulerArgs lr_scheduler_kwargs;
  std::optional<double> cosine_min_lr_ratio, cosine_constant_lr_ratio;
  bool lr_quadratic_warmup = false;
  std::optional<double> warmup_steps;  // below 1 a share of all steps
  std::optional<double> warmup_ratio;
  double weight_decay = 0;
  std::optional<double> adam_beta1, adam_beta2, adam_beta3, adam_epsilon, adam_epsilon2;
  double max_grad_norm = 1;
  std::optional<double> embedding_lr, embedding_lr_scale;
  std::vector<LrGroup> lr_groups;
  bool use_dft = false;
  double label_smoothing_factor = 0;
  Bf16 bf16 = Bf16::kAuto;
  bool fp16 = false, float32 = false;
  WeightType dtype = WeightType::kAuto;  // TRL's
  int64_t seed = 42;
  Checkpointing gradient_checkpointing = Checkpointing::kAuto;
  SelectiveCheckpointing selective_checkpointing;

  // Output, logging, checkpoints. Steps below 1 are a share of all steps.
  std::string output_dir = "./model-out";
  double logging_steps = 1;
  std::optional<double> save_steps;
  std::optional<int64_t> saves_per_epoch;
  std::optional<SaveStrategy> save_strategy;
  std::optional<int64_t> save_total_limit;
  bool save_first_step = false, save_only_model = false;
  std::optional<double> eval_steps;
  std::optional<int64_t> evals_per_epoch;
  double eval_delay = 0;
  bool eval_on_start = false;
  std::optional<IntervalStrategy> eval_strategy;
  std::optional<int64_t> sample_every_steps;
  std::vector<std::string> sample_prompts;
  int64_t sample_max_new_tokens = 64;
  bool auto_resume_from_checkpoints = false;
  std::string resume_from_checkpoint;  // or a boolean
  bool metrics = true;
  std::string metric_for_best_model;  // empty: loss
  std::optional<bool> greater_is_better, load_best_model_at_end;
  std::optional<int64_t> early_stopping_patience;
  std::optional<double> loss_watchdog_threshold;
  std::optional<int64_t> loss_watchdog_patience;
  bool use_tensorboard = false;
  std::vector<std::string> report_to;  // transformers' names of trackers

  // Machine
  std::string device = "auto";
  SpelledMemory memory;
  std::string gpu_memory_limit;  // axolotl's, in GiB where it is a number
  MaxMemory max_memory;
  std::optional<ActivationOffloading> activation_offloading;
  std::optional<LayerOffloading> layer_offloading;
  std::optional<Offload> parameter_offload, gradient_offload, optimizer_offload;
  ForeignSection deepspeed, fsdp;
};

// What the rows of the config's objective (`rl`, `reward_model`) are.
[[nodiscard]] data::Objective objective_of(const Spelled& keys);
// Whether rows lend each other their completions: of kto, but for the loss that estimates no KL.
[[nodiscard]] inline bool lends_completions(const Spelled& keys) {
  return keys.rl == Rl::kKto && (keys.dpo_loss_type.empty() || keys.dpo_loss_type.front() == "kto");
}
// Whether the run makes the completions that it is trained on.
[[nodiscard]] inline bool is_online(const Spelled& keys) {
  return keys.rl == Rl::kGrpo || keys.rl == Rl::kGdpo || keys.rl == Rl::kRloo || keys.rl == Rl::kOnlineDpo ||
         keys.rl == Rl::kPpo;
}
// Whether the config trains by preferences: `rl` or a reward model.
[[nodiscard]] inline bool has_preferences(const Spelled& keys) {
  return (keys.rl != Rl::kNone && !is_online(keys)) || keys.reward_model || keys.process_reward_model;
}
// Whether lora_dropout is not used: where the config says so or, where it does not, as each of TRL's trainers has it.
// That of PPO has none in any case.
[[nodiscard]] inline bool disables_dropout(const Spelled& keys) {
  if (keys.rl == Rl::kPpo) return true;
  const bool compares = has_preferences(keys) || keys.rl == Rl::kOnlineDpo;
  return (compares || is_online(keys)) && keys.disable_dropout.value_or(compares);
}

}  // namespace spillway::config
