#include "train/config_check.h"

#include <cmath>
#include <tuple>

#include "backend/device.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "data/rows/dataset_type.h"
#include "train/config_memory.h"
#include "train/config_values.h"
#include "train/lora_pattern.h"
#include "train/template_name.h"

namespace spillway::train {
namespace {

// The loaded config with the questions that every check asks.
struct Checks {
  LoadedConfig& loaded;
  Config& config = loaded.config;

  [[nodiscard]] bool given(std::string_view key) const { return loaded.given.find(key) != loaded.given.end(); }
  [[nodiscard]] std::string where(std::string_view key) const {
    const auto found = loaded.given.find(key);
    return found == loaded.given.end() ? std::string(key) : found->second;
  }
  void exclude(std::string_view one, bool one_set, std::string_view other, bool other_set) const {
    if (!one_set || !other_set || !given(one) || !given(other)) return;
    throw input_error(where(other), "expected {} or {}, got both; remove one", one, other);
  }
};

void complete_length(Checks& c) {
  // TRL's way to name a dataset brings TRL's default length.
  if (!c.config.max_length && c.given("dataset_name") && !c.given("sequence_len")) c.config.max_length = 1024;
  if (!c.config.max_length) {
    if (c.config.truncation_mode == TruncationMode::kKeepEnd) {
      throw input_error(
          c.where("truncation_mode"),
          "expected max_length beside truncation_mode, got none; set max_length in place of sequence_len");
    }
  } else {
    if (c.given("sequence_len") && c.config.sequence_len != *c.config.max_length) {
      throw input_error(c.where("max_length"),
                        "expected the length of sequence_len, {}, got {}; remove sequence_len or max_length",
                        c.config.sequence_len, *c.config.max_length);
    }
    if (!c.given("sequence_len")) {
      if (c.given("excess_length_strategy") && c.config.excess_length_strategy != ExcessLength::kTruncate) {
        throw input_error(c.where("excess_length_strategy"),
                          "expected truncate beside max_length, got another; set sequence_len in place of max_length");
      }
      c.config.sequence_len = *c.config.max_length;
      c.config.length_rules = LengthRules::kTrl;
      c.config.excess_length_strategy = ExcessLength::kTruncate;
    }
  }
  if (c.config.length_rules == LengthRules::kAxolotl && c.config.min_sample_len > c.config.sequence_len) {
    throw input_error(c.where("min_sample_len"), "expected at most sequence_len, {}, got {}; lower it",
                      c.config.sequence_len, c.config.min_sample_len);
  }
}

void complete_batch(Checks& c) {
  c.exclude("gradient_accumulation_steps", true, "batch_size", true);
  if (c.config.batch_size) {
    const int64_t rows = *c.config.batch_size, micro = c.config.micro_batch_size;
    if (rows % micro != 0) {
      throw input_error(c.where("batch_size"),
                        "expected a multiple of micro_batch_size, {}, got {}; change one of them", micro, rows);
    }
    c.config.gradient_accumulation_steps = rows / micro;
    if (!c.given("micro_batch_size")) {
      c.loaded.notes.push_back(
          fmt::format("batch_size: {} is micro_batch_size: 1 with gradient_accumulation_steps: {}; axolotl wants one "
                      "of them beside it",
                      rows, rows));
    }
  }
  if (c.config.eval_batch_size.value_or(0) > c.config.micro_batch_size) {
    c.loaded.notes.push_back(
        fmt::format("eval_batch_size: {} is {}, as micro_batch_size: an evaluation has the memory "
                    "of a training step",
                    *c.config.eval_batch_size, c.config.micro_batch_size));
  }
  if (c.config.sample_packing && c.config.rl != Rl::kNone) {
    throw input_error(
        c.where("sample_packing"),
        "expected false beside rl, as axolotl wants it, got true: preference rows are not packed; remove it");
  }
  c.exclude("sample_packing", c.config.sample_packing, "packing", c.config.packing);
  c.exclude("curriculum_sampling", c.config.curriculum_sampling, "group_by_length", c.config.group_by_length);
  c.exclude("sample_packing", c.config.sample_packing, "padding_free", c.config.padding_free == AutoBool::kTrue);
}

void complete_schedule(Checks& c) {
  c.exclude("warmup_steps", c.config.warmup_steps.value_or(0) > 0, "warmup_ratio",
            c.config.warmup_ratio.value_or(0) > 0);
  if (c.config.warmup_steps == 0 && c.config.warmup_ratio.value_or(0) > 0) c.config.warmup_steps.reset();
  if (c.config.max_steps && *c.config.max_steps <= 0) c.config.max_steps.reset();
  if (c.config.sgd_momentum != 0 && c.config.optimizer != Optimizer::kSgd) {
    throw input_error(c.where("optim_args.momentum"), "expected optimizer: sgd, got another; remove the momentum");
  }
  // The plain constant schedule of transformers knows no warmup.
  if (c.config.lr_scheduler == LrScheduler::kConstant) {
    c.config.warmup_steps.reset();
    c.config.warmup_ratio.reset();
    for (const char* key : {"warmup_steps", "warmup_ratio"}) {
      c.loaded.verdicts.ignore(key, "the constant schedule has no warmup");
    }
  }
}

// Saving and evaluating have the same three keys.
void check_interval(const Checks& c, std::string_view what, bool steps, bool per_epoch,
                    std::optional<IntervalStrategy> strategy) {
  const std::string steps_key = fmt::format("{}_steps", what), strategy_key = fmt::format("{}_strategy", what);
  const std::string per_epoch_key = fmt::format("{}s_per_epoch", what);
  c.exclude(steps_key, steps, per_epoch_key, per_epoch);
  if (!strategy || *strategy == IntervalStrategy::kSteps) return;
  for (const auto& [key, is_set] : {std::pair{steps_key, steps}, {per_epoch_key, per_epoch}}) {
    if (!is_set) continue;
    throw input_error(c.where(strategy_key), "expected steps beside {}, got {}; remove one of them", key,
                      *strategy == IntervalStrategy::kNo ? "no" : "epoch");
  }
}

void check_number_of_steps(const Checks& c, std::string_view key, std::optional<double> steps) {
  if (steps && *steps > 1 && *steps != std::floor(*steps)) {
    throw input_error(c.where(key), "expected an integer or a share below 1, got {}; change the value", *steps);
  }
}

void complete_output(Checks& c) {
  const Config& config = c.config;
  check_interval(c, "save", config.save_steps.has_value(), config.saves_per_epoch.value_or(0) > 0,
                 config.save_strategy);
  check_interval(c, "eval", config.eval_steps.has_value(), config.evals_per_epoch.value_or(0) > 0,
                 config.eval_strategy);
  check_number_of_steps(c, "save_steps", config.save_steps);
  check_number_of_steps(c, "eval_steps", config.eval_steps);
  check_number_of_steps(c, "logging_steps", config.logging_steps);
  check_number_of_steps(c, "warmup_steps", config.warmup_steps);

  const bool no_rows = c.given("val_set_size") && config.val_set_size == 0 && config.test_datasets.empty();
  const bool strategy = config.eval_strategy && *config.eval_strategy != IntervalStrategy::kNo;
  if (no_rows && (config.eval_steps || strategy)) {
    throw input_error(c.where(config.eval_steps ? "eval_steps" : "eval_strategy"),
                      "expected rows to evaluate on, got val_set_size 0; set val_set_size or test_datasets");
  }
  c.exclude("val_set_size", config.val_set_size > 0, "test_datasets", !config.test_datasets.empty());
  check_number_of_steps(c, "val_set_size", config.val_set_size);

  // Written as a boolean it says whether to resume, not from where.
  const auto resume = boolean_of(YamlNode::scalar(config.resume_from_checkpoint));
  if (resume) {
    c.config.auto_resume_from_checkpoints = c.config.auto_resume_from_checkpoints || *resume;
    c.config.resume_from_checkpoint.clear();
  }
  if (config.output_dir.empty()) {
    throw input_error(c.where("output_dir"), "expected a folder, got nothing; name one");
  }
}

// TRL's switch for adapters brings TRL's defaults.
void complete_peft(Checks& c) {
  Config& config = c.config;
  const bool has_adapter = config.adapter != Adapter::kNone;
  if (!config.use_peft || (!*config.use_peft && !has_adapter)) return;
  if (*config.use_peft != has_adapter && c.given("adapter")) {
    throw input_error(c.where("use_peft"), "expected the same as adapter, got {} and {}; remove one", *config.use_peft,
                      print_value(config.adapter));
  }
  if (has_adapter) return;
  config.adapter = Adapter::kLora;
  c.loaded.given.emplace("adapter", c.where("use_peft"));
  if (c.loaded.given.emplace("lora_r", c.where("use_peft")).second) config.lora_r = 16;
  if (c.loaded.given.emplace("lora_alpha", c.where("use_peft")).second) config.lora_alpha = 32;
  if (!c.given("lora_dropout")) config.lora_dropout = 0.05;
}

void complete_adapter(Checks& c) {
  Config& config = c.config;
  if (config.lora_target_modules == std::vector<std::string>{"all-linear"}) {
    config.lora_target_modules.clear();
    config.lora_target_linear = true;
  }
  if (config.lora_target_modules.size() == 1 && is_module_pattern(config.lora_target_modules[0])) {
    check_module_pattern(config.lora_target_modules[0], c.where("lora_target_modules"));
    config.lora_target_pattern = std::move(config.lora_target_modules[0]);
    config.lora_target_modules.clear();
  }
  if (config.adapter == Adapter::kNone) {
    if (!config.lora_model_dir.empty()) {
      throw input_error(c.where("lora_model_dir"),
                        "expected adapter: lora beside lora_model_dir, got none; set adapter");
    }
    for (const char* key : {"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_target_linear",
                            "lora_modules_to_save", "peft_use_rslora"}) {
      c.loaded.verdicts.ignore(key, "adapter is off");
    }
    return;
  }
  if (!c.given("lora_r") && config.lora_model_dir.empty()) {
    throw input_error(c.where("adapter"), "expected lora_r beside adapter: lora, got none; set lora_r, for example 16");
  }
  if (!c.given("lora_alpha") && config.lora_model_dir.empty()) config.lora_alpha = static_cast<double>(config.lora_r);
}

// `key` is what the verdict is on, `where` its place in messages.
void complete_template(Checks& c, std::string_view key, std::string_view where, std::string& name,
                       const std::string& jinja) {
  if (name == "jinja" && jinja.empty()) {
    throw input_error(where, "expected chat_template_jinja beside chat_template: jinja, got none; set it");
  }
  if (!jinja.empty() && !name.empty() && name != "jinja") {
    throw input_error(where, "expected chat_template: jinja beside chat_template_jinja, got {}; remove one",
                      quote(name));
  }
  if (!jinja.empty()) name = "jinja";
  Verdicts verdicts;
  verdicts.attempt(key, key, [&] { check_template_name(name, where); });
  c.loaded.verdicts.append(std::move(verdicts));
}

void complete_datasets(Checks& c, std::string_view key, std::vector<DatasetConfig>& datasets) {
  // One that is still to come has types of its own.
  const bool has_known_objective = objective_of(c.config) != data::Objective::kText ||
                                   !(c.given("rl") || c.given("reward_model") || c.given("process_reward_model"));
  for (size_t i = 0; i < datasets.size(); ++i) {
    DatasetConfig& dataset = datasets[i];
    const std::string where = fmt::format("{}.{}", c.where(key), i);
    if (dataset.path.empty()) throw input_error(where + ".path", "expected a file or a folder, got nothing; set it");
    for (const auto& [name, older] :
         {std::pair{"role", &dataset.message_field_role}, {"content", &dataset.message_field_content}}) {
      if (older->empty()) continue;
      const auto [mapping, is_new] = dataset.message_property_mappings.emplace(name, *older);
      if (!is_new && mapping->second != *older) {
        throw input_error(fmt::format("{}.message_field_{}", where, name),
                          "expected the name in message_property_mappings.{}, {}, got {}; remove one", name,
                          quote(mapping->second), quote(*older));
      }
    }
    if (has_known_objective) {
      Verdicts types;
      const std::string type_key = fmt::format("{}.{}.type", key, i);
      types.attempt(type_key, type_key, [&] { data::check_dataset_type(dataset, objective_of(c.config)); });
      c.loaded.verdicts.append(std::move(types));
    }
    complete_template(c, fmt::format("{}.{}.chat_template", key, i), where + ".chat_template", dataset.chat_template,
                      dataset.chat_template_jinja);
    if (dataset.shards_idx >= dataset.shards) {
      throw input_error(where + ".shards_idx", "expected a part from 0 to {}, got {}; lower it or raise shards",
                        dataset.shards - 1, dataset.shards_idx);
    }
  }
}

void complete_pretraining(Checks& c) {
  Config& config = c.config;
  if (config.pretraining_dataset.empty()) return;
  if (!config.datasets.empty()) {
    constexpr const char* kReplaced = "pretraining_dataset takes the place of datasets";
    c.loaded.notes.emplace_back(kReplaced);
    c.loaded.verdicts.ignore_below("datasets", kReplaced);
    c.loaded.verdicts.ignore("dataset_name", kReplaced);
  }
  for (DatasetConfig& dataset : config.pretraining_dataset) {
    if (!dataset.type.given) dataset.type = {.given = true, .name = "pretrain"};
  }
  config.datasets = config.pretraining_dataset;
  c.loaded.given["datasets"] = c.where("pretraining_dataset");
  config.streaming = true;
}

// A stream has no end, and nobody sees all of its rows.
void check_streaming(Checks& c) {
  const Config& config = c.config;
  const bool pretrains = !config.pretraining_dataset.empty();
  const char* const streams = pretrains ? "pretraining_dataset" : "streaming";
  const char* const no_stream = pretrains ? "name the data in datasets" : "remove streaming";
  const std::string where = c.where(streams);
  if (config.max_steps.value_or(0) <= 0)
    throw input_error(where, "expected max_steps beside it, got none; a stream has no end of its own: set max_steps");
  const bool sorts = config.group_by_length || config.train_sampling_strategy == SamplingStrategy::kGroupByLength;
  const bool prefers = config.rl != Rl::kNone || config.reward_model;
  for (const auto& [is_set, key, advice] :
       {std::tuple{config.val_set_size > 0, "val_set_size", "evaluate on test_datasets"},
        {config.dataset_exact_deduplication, "dataset_exact_deduplication", "remove it"},
        {sorts, config.group_by_length ? "group_by_length" : "train_sampling_strategy", "remove it"},
        {config.process_reward_model, "process_reward_model", no_stream},
        {prefers, config.reward_model ? "reward_model" : "rl", no_stream}}) {
    if (is_set)
      throw input_error(c.where(key), "expected rows that are all read first, got {} beside it; {}", streams, advice);
  }
  if (config.test_datasets.empty()) c.loaded.verdicts.ignore("dataset_prepared_path", "a stream is not kept");
}

void complete_data(Checks& c) {
  Config& config = c.config;
  c.exclude("datasets", true, "dataset_name", true);
  if (config.dataset_name.empty()) {
    c.loaded.verdicts.ignore("dataset_train_split", "it goes with dataset_name; entries of datasets have a split");
  } else {
    DatasetConfig& dataset = config.datasets.emplace_back();
    dataset.path = config.dataset_name;
    if (!config.dataset_train_split.empty()) dataset.split = config.dataset_train_split;
    c.loaded.given.emplace("datasets", c.where("dataset_name"));
  }
  complete_pretraining(c);
  if (config.streaming) check_streaming(c);
  if (config.datasets.empty()) {
    throw input_error(c.where("datasets"),
                      "expected at least one dataset, got none; write `- path: FILE` below `datasets:`");
  }
  complete_datasets(c, config.pretraining_dataset.empty() ? "datasets" : "pretraining_dataset", config.datasets);
  complete_datasets(c, "test_datasets", config.test_datasets);
  complete_template(c, "chat_template", c.where("chat_template"), config.chat_template, config.chat_template_jinja);
}

void complete_types(Checks& c) {
  if (c.config.dtype != WeightType::kBf16) return;
  if (c.config.bf16 == AutoBool::kFalse) {
    throw input_error(c.where("dtype"), "expected bf16: true beside dtype: bfloat16, got false; remove one");
  }
  c.config.bf16 = AutoBool::kTrue;
}

// Older spellings put offloading into gradient_checkpointing.
void complete_checkpointing(Checks& c) {
  Config& config = c.config;
  const bool to_disk = config.gradient_checkpointing == Checkpointing::kOffloadDisk;
  if (to_disk || config.gradient_checkpointing == Checkpointing::kOffload) {
    const auto meant = to_disk ? ActivationOffloading::kDisk : ActivationOffloading::kHost;
    if (config.activation_offloading && *config.activation_offloading != meant) {
      throw input_error(c.where("activation_offloading"),
                        "expected {} beside gradient_checkpointing: {}, got {}; write gradient_checkpointing: true",
                        print_value(meant), print_value(config.gradient_checkpointing),
                        print_value(*config.activation_offloading));
    }
    c.loaded.notes.push_back(
        fmt::format("gradient_checkpointing: {} is gradient_checkpointing: true with "
                    "activation_offloading: {}",
                    print_value(config.gradient_checkpointing), print_value(meant)));
    config.gradient_checkpointing = Checkpointing::kOn;
    config.activation_offloading = meant;
  }
  const bool offloads = config.activation_offloading.value_or(ActivationOffloading::kOff) != ActivationOffloading::kOff;
  if (offloads && config.gradient_checkpointing == Checkpointing::kOff) {
    c.loaded.notes.emplace_back(
        "activation_offloading without gradient_checkpointing: every saved activation moves; axolotl refuses it");
  }
  if (!config.selective_checkpointing.enabled) return;
  if (offloads && config.activation_offloading != ActivationOffloading::kHiddenStates) {
    c.loaded.notes.emplace_back(
        "selective_checkpointing with activation_offloading: what is kept moves, the rest is computed again; axolotl "
        "refuses it");
  }
  if (config.gradient_checkpointing == Checkpointing::kOff) {
    throw input_error(c.where("selective_checkpointing"),
                      "expected gradient_checkpointing: true beside it, got false; remove one of them");
  }
  config.gradient_checkpointing = Checkpointing::kOn;
}

void note_layers(Checks& c) {
  const auto moves = c.config.layer_offloading.value_or(LayerOffloading::kOff) != LayerOffloading::kOff;
  if (!moves || c.config.adapter != Adapter::kNone) return;
  c.loaded.notes.emplace_back(
      "layer_offloading moves frozen weights, and full fine-tuning has none; parameter_offload moves trainable ones");
}

void check_machine(const Checks& c) {
  const Config& config = c.config;
  constexpr int64_t kAnyMachine = kGiB;  // only the form is checked: how much 80% is, is the planner's business
  for (const auto& [key, size] : {std::pair{"memory.device", &config.memory.device},
                                  {"memory.host", &config.memory.host},
                                  {"memory.disk", &config.memory.disk}}) {
    if (!size->empty()) (void)parse_bytes(*size, kAnyMachine, c.where(key));
  }
  // Whether the GPU is there is another question, for the machine that trains.
  if (config.device == "auto" || config.device == "cpu" || gpu_of(config.device)) return;
  throw input_error(c.where("device"), "expected auto, cpu, cuda or cuda:N, got {}; write one of them",
                    quote(config.device));
}

void check_required(const Checks& c, ConfigUse use) {
  if (c.config.base_model.empty()) {
    throw input_error(c.where("base_model"), "expected a Hugging Face folder, got nothing; set base_model");
  }
  if (use == ConfigUse::kTrain && !c.given("learning_rate")) {
    throw input_error(c.where("learning_rate"), "expected a number, got nothing; set learning_rate, for example 2e-4");
  }
}

}  // namespace

void complete_config(LoadedConfig& loaded, ConfigUse use) {
  Checks checks{loaded};
  check_required(checks, use);
  complete_data(checks);
  complete_length(checks);
  complete_batch(checks);
  complete_peft(checks);
  complete_adapter(checks);
  complete_schedule(checks);
  complete_types(checks);
  complete_checkpointing(checks);
  note_layers(checks);
  complete_output(checks);
  complete_memory(loaded);
  check_machine(checks);
}

}  // namespace spillway::train
