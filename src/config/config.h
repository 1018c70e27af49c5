// What the user asks for, as plain values: axolotl's keys, their meaning and their defaults.
//
// The table in config/keys.h says how each key is spelled and read; config/load.h makes a Config from a
// file and the command line. Members carry the names of the keys. std::optional means that the user may leave the
// choice to the program; everything else holds the default until a key sets it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset_options.h"
#include "text/tokenizer.h"

namespace spillway::config {

enum class Adapter { kNone, kLora };
// By the name of its OptimizerDef (ops/optimizers/): several words of configs mean one.
struct Optimizer {
  std::string_view name = "adamw";
  bool operator==(const Optimizer&) const = default;
};
enum class LrScheduler { kConstant, kConstantWithWarmup, kLinear, kCosine };
enum class WeightType { kAuto, kF32, kBf16 };
enum class Rl { kNone, kDpo, kIpo, kSimpo, kOrpo, kKto };
enum class AutoBool { kFalse, kTrue, kAuto };
enum class Checkpointing { kAuto, kOff, kOn, kOffload, kOffloadDisk };  // kAuto: the plan decides
enum class ActivationOffloading { kOff, kHost, kLegacy, kDisk, kHiddenStates };
enum class LayerOffloading { kOff, kHost, kDisk };
enum class Offload { kNone, kHost, kDisk, kAuto };  // kAuto: the plan decides, under memory.plan: fixed, too
enum class SavedOutputs { kAttention, kProducts };  // entries of selective_checkpointing.save
// Entries of selective_checkpointing.recompute_layer_types; kOther: of models that are not supported.
enum class LayerType { kFullAttention, kSlidingAttention, kOther };
enum class IntervalStrategy { kNo, kSteps, kEpoch };
enum class PlanMode { kAuto, kFixed };
enum class PackingScope { kBatch, kDataset };  // which rows TRL's packing looks at together: 1000, or all
enum class SamplingStrategy { kRandom, kSequential, kGroupByLength };

// What concerns the data is declared beside the code that reads it.
using data::DatasetConfig;
using data::DatasetType;
using data::ExcessLength;
using data::LengthRules;
using data::PackingStrategy;
using SpecialTokens = text::SpecialTokenNames;
using data::TrainOnEos;
using data::TruncationMode;

// Sizes as the user wrote them: bytes, `12GiB`, or `80%` of a machine that is not known here; empty: what is free.
struct MemoryConfig {
  std::string device, host, disk;
  std::vector<std::string> disk_paths;  // empty: OUTPUT/scratch
  PlanMode plan = PlanMode::kAuto;
  bool disk_checksum = false;
  // The keys that the budgets came from, as a command line takes them; loading knows other spellings.
  std::string device_key = "memory.device", host_key = "memory.host", disk_key = "memory.disk";
  // A section names the tier, but leaves to the plan what goes there.
  bool uses_host = false, uses_disk = false;
};

// A bool or a mapping, as in axolotl.
struct SelectiveCheckpointing {
  bool enabled = false;
  std::vector<SavedOutputs> save = {SavedOutputs::kAttention};
  bool offload = false;              // what is saved does not stay in device memory
  bool save_sliding_window = false;  // in layers of all types
  std::vector<LayerType> recompute_layer_types = {LayerType::kSlidingAttention};  // nothing is saved in these
};

// Names of modules, or one pattern that whole paths match, as PEFT takes them.
struct TargetModules {
  std::vector<std::string> names;
  std::string pattern;

  [[nodiscard]] bool empty() const { return names.empty() && pattern.empty(); }
};

// accelerate's budgets: a device's number, `cpu` or `disk` -> a size as written.
struct MaxMemory {
  std::map<std::string, std::string, std::less<>> sizes;
};

// A section in another program's words; loading makes it keys of ours.
struct ForeignSection {};

struct Config {
  // Model
  std::string base_model;
  std::string tokenizer_config;  // a folder; empty: base_model

  // Adapter
  Adapter adapter = Adapter::kNone;
  std::optional<bool> use_peft;  // TRL's; loading makes it the adapter
  int64_t lora_r = 0;
  double lora_alpha = 0;
  double lora_dropout = 0;
  TargetModules lora_target_modules;  // empty, without lora_target_linear: q_proj and v_proj
  bool lora_target_linear = false;
  std::vector<std::string> lora_modules_to_save;
  std::string lora_model_dir;
  bool peft_use_rslora = false;

  // Data
  std::vector<DatasetConfig> datasets, test_datasets;
  std::vector<DatasetConfig> pretraining_dataset;  // loading makes these the datasets, of type pretrain, and streams
  bool pretraining_sample_concatenation = false;
  bool streaming = false;                           // rows are read as they are needed
  int64_t streaming_multipack_buffer_size = 10000;  // records that are shuffled, and packed, together
  double val_set_size = 0;                          // a share below 1, a number of rows from 1 on
  std::string chat_template, chat_template_jinja;
  data::TemplateVariables chat_template_kwargs;
  SpecialTokens special_tokens;
  std::string eos_token, pad_token;  // TRL's, of the vocabulary; loading makes them those of special_tokens
  bool resize_token_embeddings_to_32x = false;
  std::vector<std::string> eot_tokens;
  bool train_on_inputs = false;
  std::string dataset_name, dataset_config,
      dataset_train_split;  // TRL's; loading makes them the one entry of `datasets`
  std::optional<bool> completion_only_loss;
  bool assistant_only_loss = false;
  std::string dataset_text_field = "text";
  bool dataset_exact_deduplication = false;
  Rl rl = Rl::kNone;
  bool reward_model = false, process_reward_model = false;
  std::optional<int64_t> max_prompt_length, max_completion_length;  // of preference rows
  std::optional<bool> shuffle_merged_datasets;                      // left out: yes, but for TRL's packing
  std::string dataset_prepared_path;                                // empty: rows are not kept
  std::optional<int64_t> dataset_processes;                         // threads; left out: one a core
  bool curriculum_sampling = false;

  // Length and batches
  int64_t sequence_len = 512;
  std::optional<int64_t> max_length;  // TRL's; loading makes it the sequence_len and length_rules kTrl
  LengthRules length_rules = LengthRules::kAxolotl;
  ExcessLength excess_length_strategy = ExcessLength::kDrop;
  TruncationMode truncation_mode = TruncationMode::kKeepStart;
  int64_t min_sample_len = 2;
  bool sample_packing = false, sample_packing_sequentially = false;
  int64_t sample_packing_bin_size = 200;  // rows of a line at most; 0: any number
  bool packing = false;                   // TRL's
  PackingStrategy packing_strategy = PackingStrategy::kBfd;
  PackingScope packing_scope = PackingScope::kBatch;
  bool group_by_length = false;
  SamplingStrategy train_sampling_strategy = SamplingStrategy::kRandom;
  std::optional<bool> eval_sample_packing;
  AutoBool padding_free = AutoBool::kAuto;
  int64_t micro_batch_size = 1;
  int64_t gradient_accumulation_steps = 1;
  std::optional<int64_t> batch_size;  // loading makes it gradient_accumulation_steps
  std::optional<int64_t> eval_batch_size;

  // Optimisation
  double num_epochs = 1;
  std::optional<int64_t> max_steps;  // wins over num_epochs
  Optimizer optimizer;
  double sgd_momentum = 0;  // optim_args.momentum
  double learning_rate = 0;
  LrScheduler lr_scheduler = LrScheduler::kCosine;
  std::optional<double> warmup_steps;  // below 1 a share of all steps
  std::optional<double> warmup_ratio;
  double weight_decay = 0;
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon = 1e-8;
  double max_grad_norm = 1;  // 0: no clipping
  AutoBool bf16 = AutoBool::kAuto;
  WeightType dtype = WeightType::kAuto;  // TRL's; loading makes kBf16 `bf16: true`
  int64_t seed = 42;
  Checkpointing gradient_checkpointing = Checkpointing::kAuto;  // kOff, kOn or kAuto once loaded
  SelectiveCheckpointing selective_checkpointing;

  // Output, logging, checkpoints. Steps below 1 are a share of all steps.
  std::string output_dir = "./model-out";
  double logging_steps = 1;
  std::optional<double> save_steps;
  std::optional<int64_t> saves_per_epoch;
  std::optional<IntervalStrategy> save_strategy;
  std::optional<int64_t> save_total_limit;
  std::optional<double> eval_steps;
  std::optional<int64_t> evals_per_epoch;
  std::optional<IntervalStrategy> eval_strategy;
  bool auto_resume_from_checkpoints = false;
  std::string resume_from_checkpoint;
  bool metrics = true;

  // Machine
  std::string device = "auto";
  MemoryConfig memory;
  std::string gpu_memory_limit;  // axolotl's, in GiB where it is a number; loading makes it memory.device
  MaxMemory max_memory;          // accelerate's; loading makes it budgets
  std::optional<ActivationOffloading> activation_offloading;
  std::optional<LayerOffloading> layer_offloading;
  std::optional<Offload> parameter_offload, gradient_offload, optimizer_offload;
  ForeignSection deepspeed, fsdp;
};

// What the rows of the config's objective (`rl`, `reward_model`) are.
[[nodiscard]] data::Objective objective_of(const Config& config);

// After how many optimizer steps a checkpoint or an evaluation is due, `total_steps` and `steps_per_epoch` being
// known: every multiple of the result; 0 for never (the end of a run always has both). Without any key it is every
// epoch, as in axolotl.
[[nodiscard]] int64_t save_interval(const Config& config, int64_t total_steps, int64_t steps_per_epoch);
[[nodiscard]] int64_t eval_interval(const Config& config, int64_t total_steps, int64_t steps_per_epoch);

// Steps over which the learning rate rises from 0.
[[nodiscard]] int64_t warmup_interval(const Config& config, int64_t total_steps);

// Where `memory.disk_paths` leads: the folders given, or OUTPUT/scratch.
[[nodiscard]] std::vector<std::string> disk_paths(const Config& config);
// The folder whose tokenizer the job uses.
[[nodiscard]] const std::string& tokenizer_folder(const Config& config);

}  // namespace spillway::config
