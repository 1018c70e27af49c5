#include "train/run_settings.h"

#include "base/log.h"
#include "train/config_values.h"

namespace spillway::train {
namespace {

void add_adapter(RunSettings& settings, const Job& job) {
  settings["adapter"] = print_value(job.config.adapter);
  if (!job.graph.decoder.lora) return;
  const LoraOptions& lora = *job.graph.decoder.lora;  // of the adapter's folder, where there is one
  settings["lora_alpha"] = print_value(lora.alpha);
  settings["lora_dropout"] = print_value(lora.dropout);
  settings["peft_use_rslora"] = print_value(lora.rslora);
}

void add_batches(RunSettings& settings, const Config& config) {
  settings["sequence_len"] = print_value(config.sequence_len);
  settings["micro_batch_size"] = print_value(config.micro_batch_size);
  settings["gradient_accumulation_steps"] = print_value(config.gradient_accumulation_steps);
  settings["sample_packing"] = print_value(config.sample_packing);
  settings["sample_packing_sequentially"] = print_value(config.sample_packing_sequentially);
  settings["sample_packing_bin_size"] = print_value(config.sample_packing_bin_size);
  settings["packing"] = print_value(config.packing);
  settings["packing_strategy"] = print_value(config.packing_strategy);
  settings["packing_scope"] = print_value(config.packing_scope);
  settings["group_by_length"] = print_value(config.group_by_length);
  settings["train_sampling_strategy"] = print_value(config.train_sampling_strategy);
  settings["curriculum_sampling"] = print_value(config.curriculum_sampling);
  settings["shuffle_merged_datasets"] = print_value(config.shuffle_merged_datasets);
}

void add_optimisation(RunSettings& settings, const Config& config, int64_t total_steps) {
  settings["max_steps"] = print_value(total_steps);
  settings["warmup_steps"] = print_value(warmup_interval(config, total_steps));
  settings["optimizer"] = print_value(config.optimizer);
  settings["optim_args.momentum"] = print_value(config.sgd_momentum);
  settings["learning_rate"] = print_value(config.learning_rate);
  settings["lr_scheduler"] = print_value(config.lr_scheduler);
  settings["weight_decay"] = print_value(config.weight_decay);
  settings["adam_beta1"] = print_value(config.adam_beta1);
  settings["adam_beta2"] = print_value(config.adam_beta2);
  settings["adam_epsilon"] = print_value(config.adam_epsilon);
  settings["max_grad_norm"] = print_value(config.max_grad_norm);
  settings["seed"] = print_value(config.seed);
}

}  // namespace

RunSettings settings_of(const Job& job, const TrainingLength& length) {
  RunSettings settings;
  add_adapter(settings, job);
  add_batches(settings, job.config);
  add_optimisation(settings, job.config, length.total_steps);
  settings["bf16"] = print_value(job.graph.decoder.dtype == DType::kBF16);
  return settings;
}

void warn_of_changes(const RunSettings& before, const RunSettings& now, std::string_view where) {
  for (const auto& [name, value] : now) {
    const auto found = before.find(name);
    if (found == before.end() || found->second == value) continue;  // of a version that did not write it
    const auto shown = [](const std::string& text) { return text.empty() ? "not set" : text.c_str(); };
    log_warning("{} was {} in {}, and is {} from here on", name, shown(found->second), where, shown(value));
  }
}

}  // namespace spillway::train
