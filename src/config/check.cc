#include "config/check.h"

#include <cmath>

#include "backend/device.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "config/check_data.h"
#include "config/memory.h"
#include "config/trl.h"
#include "config/values.h"

namespace spillway::config {
namespace {

void complete_batch(Checks& c) {
  c.exclude("gradient_accumulation_steps", true, "batch_size", true);
  if (c.config.batch_size) {
    const int64_t rows = *c.config.batch_size, micro = c.config.micro_batch_size;
    if (rows % micro != 0) {
      throw input_error(c.where("batch_size"),
                        "expected a multiple of micro_batch_size, {}, got {}; change one of them", micro, rows);
    }
    c.config.gradient_accumulation_steps = rows / micro;
    // As axolotl. DeepSpeed's train_batch_size comes here, too; its programs have a micro-batch of their own.
    if (!c.given("micro_batch_size") && c.loaded.spelled.contains("batch_size")) {
      throw input_error(c.where("batch_size"),
                        "expected micro_batch_size beside it, got neither that nor gradient_accumulation_steps; set "
                        "micro_batch_size");
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
  if (c.config.sgd_momentum != 0 && c.config.optimizer != Optimizer{"sgd"}) {
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
  if (config.lora_target_modules.names == std::vector<std::string>{"all-linear"}) {
    config.lora_target_modules = {};
    config.lora_target_linear = true;
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
        "selective_checkpointing with activation_offloading: what is kept moves, the rest is recomputed; axolotl "
        "refuses it");
  }
  if (!c.given("gradient_checkpointing") || config.gradient_checkpointing == Checkpointing::kOff) {
    const bool is_off = config.gradient_checkpointing == Checkpointing::kOff;
    throw input_error(c.where("selective_checkpointing"), "expected gradient_checkpointing: true beside it, got {}; {}",
                      is_off ? "false" : "none", is_off ? "remove one of them" : "set it");
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
  // A tier can be switched off; what computes has to be somewhere.
  if (!config.memory.device.empty() && parse_bytes(config.memory.device, kAnyMachine, "") == 0) {
    throw input_error(c.where("memory.device"), "expected more than nothing, got {}; raise it, or leave it out",
                      quote(config.memory.device));
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
  take_trl_defaults(checks);
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

}  // namespace spillway::config
