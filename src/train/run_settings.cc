#include "train/run_settings.h"

#include "base/log.h"
#include "config/values.h"

namespace spillway::train {
namespace {

void add_adapter(RunSettings& settings, const Job& job) {
  settings["adapter"] = config::print_value(job.config.adapter);
  if (!job.graph.decoder.lora) return;
  const LoraOptions& lora = *job.graph.decoder.lora;  // of the adapter's folder, where there is one
  settings["lora_alpha"] = config::print_value(lora.alpha);
  settings["lora_dropout"] = config::print_value(lora.dropout);
  settings["peft_use_rslora"] = config::print_value(lora.rslora);
}

void add_batches(RunSettings& settings, const config::Config& config) {
  settings["sequence_len"] = config::print_value(config.sequence_len);
  settings["micro_batch_size"] = config::print_value(config.micro_batch_size);
  settings["gradient_accumulation_steps"] = config::print_value(config.gradient_accumulation_steps);
  settings["sample_packing"] = config::print_value(config.sample_packing);
  settings["sample_packing_sequentially"] = config::print_value(config.sample_packing_sequentially);
  settings["sample_packing_bin_size"] = config::print_value(config.sample_packing_bin_size);
  settings["packing"] = config::print_value(config.packing);
  settings["packing_strategy"] = config::print_value(config.packing_strategy);
  settings["packing_scope"] = config::print_value(config.packing_scope);
  settings["group_by_length"] = config::print_value(config.group_by_length);
  settings["train_sampling_strategy"] = config::print_value(config.train_sampling_strategy);
  settings["curriculum_sampling"] = config::print_value(config.curriculum_sampling);
  settings["shuffle_merged_datasets"] = config::print_value(config.shuffle_merged_datasets);
}

void add_optimisation(RunSettings& settings, const config::Config& config, int64_t total_steps) {
  settings["max_steps"] = config::print_value(total_steps);
  settings["warmup_steps"] = config::print_value(config::warmup_interval(config, total_steps));
  settings["optimizer"] = config::print_value(config.optimizer);
  settings["optim_args.momentum"] = config::print_value(config.sgd_momentum);
  settings["learning_rate"] = config::print_value(config.learning_rate);
  settings["lr_scheduler"] = config::print_value(config.lr_scheduler);
  settings["weight_decay"] = config::print_value(config.weight_decay);
  settings["adam_beta1"] = config::print_value(config.adam_beta1);
  settings["adam_beta2"] = config::print_value(config.adam_beta2);
  settings["adam_epsilon"] = config::print_value(config.adam_epsilon);
  settings["max_grad_norm"] = config::print_value(config.max_grad_norm);
  settings["seed"] = config::print_value(config.seed);
}

}  // namespace

RunSettings settings_of(const Job& job, const TrainingLength& length) {
  RunSettings settings;
  add_adapter(settings, job);
  add_batches(settings, job.config);
  add_optimisation(settings, job.config, length.total_steps);
  settings["bf16"] = config::print_value(job.graph.decoder.dtype == DType::kBF16);
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
