#include "saved/run_settings.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "config/values.h"
#include "job/optimizer_options.h"

namespace spillway::train {
namespace {

constexpr const char* kInit = "peft_init_lora_weights";
constexpr const char* kOverrides = "overrides_of_model_config";

void add_adapter(RunSettings& settings, const Job& job) {
  settings["adapter"] = config::print_value(job.config.adapter ? config::Adapter::kLora : config::Adapter::kNone);
  settings["unfrozen_parameters"] = config::print_value(job.config.model.unfrozen_parameters);
  if (!job.graph.model.lora) return;
  const LoraOptions& lora = *job.graph.model.lora;  // of the adapter's folder, where there is one
  settings["lora_r"] = config::print_value(lora.r);
  settings["lora_alpha"] = config::print_value(lora.alpha);
  settings["lora_dropout"] = config::print_value(lora.dropout);
  settings["peft_use_rslora"] = config::print_value(lora.rslora);
  if (job.config.adapter) {
    settings[kInit] = config::print_value(job.config.adapter->init);
    const std::optional<int64_t>& bits = job.config.adapter->loftq_bits;
    settings["peft.loftq_config.loftq_bits"] = bits ? config::print_value(*bits) : "";
  }
  settings["peft_use_dora"] = config::print_value(lora.dora);
  std::vector<std::string> alphas;
  for (const auto& [module, alpha] : lora.alphas)
    alphas.push_back(fmt::format("{}: {}", module, config::print_value(alpha)));
  settings["lora_alpha_pattern"] = fmt::format("{}", fmt::join(alphas, ", "));
  const config::RestartSettings* const restarts =
      job.config.adapter && job.config.adapter->restarts ? &*job.config.adapter->restarts : nullptr;
  settings["relora"] = config::print_value(restarts != nullptr);
  settings["relora_prune_method"] = restarts ? config::print_value(restarts->prune_method) : "";
  settings["relora_prune_ratio"] = restarts ? config::print_value(restarts->prune_ratio) : "";
  settings["loraplus_lr_ratio"] =
      config::print_value(job.config.adapter ? job.config.adapter->loraplus_lr_ratio.value_or(1) : 1.0);
}

void add_quantisation(RunSettings& settings, const std::optional<config::QuantisationSettings>& quantisation) {
  const bool eight_bits = quantisation && quantisation->coding == WeightCoding::kInt8;
  const bool four_bits = quantisation && !eight_bits;
  settings["load_in_4bit"] = config::print_value(four_bits);
  settings["load_in_8bit"] = config::print_value(eight_bits);
  if (!quantisation) return;
  settings["llm_int8_skip_modules"] = config::print_value(quantisation->skip_modules);
  settings["quantize_moe_experts"] = config::print_value(quantisation->has_experts);
  if (!four_bits) return;
  settings["bnb_4bit_quant_type"] = name_of(quantisation->coding);
  settings["bnb_4bit_use_double_quant"] = config::print_value(quantisation->double_quant);
}

void add_batches(RunSettings& settings, const config::Config& config) {
  const data::BatchOptions& options = config.data.batches;
  settings["micro_batch_size"] = config::print_value(config.batches.micro_batch_size);
  settings["gradient_accumulation_steps"] = config::print_value(config.batches.gradient_accumulation_steps);
  settings["val_set_size"] = config::print_value(config.data.val_set_size);
  settings["curriculum_sampling"] = config::print_value(options.order == data::RowOrder::kFile);
  const bool shuffles = config.data.stream ? config.data.stream->shuffles : options.shuffle_before_packing;
  settings["data_seed"] = config::print_value(static_cast<int64_t>(options.seed));
  settings["dataloader_drop_last"] = config::print_value(options.drops_last);
  settings["shuffle_dataset"] = config::print_value(shuffles);
}

// Adds each option with its effective value, given or not.
void add_optimizer(RunSettings& settings, const Job& job) {
  if (!job.graph.masters) {
    settings["bf16"] = "full";
    settings["optim_args.bf16_stochastic_round"] = config::print_value(job.graph.rounding_seed.has_value());
  }
  settings["optimizer"] = config::print_value(job.config.optimizer.optimizer);
  for (const ops::OptimizerOption& option : job.graph.optimizer->options)
    settings[spelled_name(option)] = config::print_value(job.graph.optimizer_options.real(option.name));
}

// Adds each option with its effective value, given or not.
void add_schedule(RunSettings& settings, const config::ScheduleSettings& schedule) {
  settings["lr_scheduler"] = schedule.lr_scheduler.name;
  for (const schedules::ScheduleOption& option : schedules::find_schedule(schedule.lr_scheduler.name)->options) {
    const std::optional<double> given = schedule.options.find(option.name);
    const std::optional<double> value = given ? given : option.value;
    settings[fmt::format("lr_scheduler_kwargs.{}", option.name)] = value ? schedules::print_option(option, *value) : "";
  }
}

void add_optimisation(RunSettings& settings, const config::Config& config, int64_t total_steps) {
  settings["max_steps"] = config::print_value(total_steps);
  const config::ScheduleSettings& schedule = config.schedule;
  settings["warmup_steps"] =
      config::print_value(std::max(schedule.warmup.of(total_steps), schedule.optimizer_warmup.of(total_steps)));
  settings["learning_rate"] = config::print_value(config.schedule.learning_rate);
  add_schedule(settings, config.schedule);
  const schedules::JaggedRestarts restarts = config.schedule.restarts.value_or(schedules::JaggedRestarts());
  settings["jagged_restart_steps"] = config::print_value(restarts.steps);
  settings["jagged_restart_warmup_steps"] = config::print_value(restarts.warmup_steps);
  settings["jagged_restart_anneal_steps"] = config::print_value(restarts.anneal_steps);
  settings["max_grad_norm"] = config::print_value(config.optimizer.max_grad_norm);
  settings["tiled_mlp_num_shards"] = config::print_value(config.batches.mlp_tiles);
  settings["neftune_noise_alpha"] = config::print_value(config.model.neftune_noise_alpha);
  settings["seed"] = config::print_value(config.seed);
  const std::optional<config::LisaSettings>& lisa = config.model.lisa;
  settings["lisa_n_layers"] = lisa ? config::print_value(lisa->layers) : "";
  settings["lisa_step_interval"] = lisa ? config::print_value(lisa->interval) : "";
  const std::optional<config::LrGroups>& groups = config.optimizer.lr_groups;
  settings["embedding_lr"] = groups ? config::print_value(groups->embedding_lr) : "";
  std::vector<std::string> rates;
  for (const config::LrGroup& one : groups ? groups->groups : std::vector<config::LrGroup>())
    rates.push_back(fmt::format("{}: {}", fmt::join(one.modules, " "), config::print_value(one.lr)));
  settings["lr_groups"] = fmt::format("{}", fmt::join(rates, ", "));
}

}  // namespace

RunSettings forward_settings_of(const Job& job) {
  RunSettings settings;
  add_adapter(settings, job);
  add_quantisation(settings, job.config.quantisation);
  const std::string& overrides = job.config.model.config_overrides;
  settings[kOverrides] = overrides.empty() ? "none" : overrides;
  settings["bf16"] = config::print_value(job.graph.model.dtype == DType::kBF16);
  return settings;
}

RunSettings settings_of(const Job& job, const TrainingLength& length) {
  RunSettings settings = forward_settings_of(job);
  settings["rl"] = "none";
  job.kind->add_settings(job, settings);
  add_batches(settings, job.config);
  add_optimizer(settings, job);
  add_optimisation(settings, job.config, length.total_steps);
  settings["router_aux_loss_coef"] = config::print_value(job.graph.model.router_aux_loss_coef);
  return settings;
}

RunSettings settings_from_json(const nlohmann::ordered_json& json) {
  auto settings = json.get<RunSettings>();
  // Earlier versions wrote no name for schedule_free_adamw.
  if (const auto optimizer = settings.find("optimizer"); optimizer != settings.end() && optimizer->second.empty())
    settings.erase(optimizer);
  return settings;
}

void take_batches(const RunSettings& settings, EpochSize& size) {
  const auto take = [&](const char* name, int64_t& number) {
    const auto found = settings.find(name);
    if (found != settings.end()) number = std::stoll(found->second);
  };
  take("micro_batch_size", size.batch_lines);
  take("gradient_accumulation_steps", size.step_batches);
  const auto drops = settings.find("dataloader_drop_last");
  if (drops != settings.end()) size.drops_last = drops->second == config::print_value(true);
}

namespace {

// Returns the part of a setting that the tensors depend on: for words that mean one optimizer its name; for adapter
// starts only those that change the base.
std::string_view tensors_of(std::string_view setting, const std::string& value) {
  if (setting == kInit) {
    const bool changes_base = value.starts_with("pissa") || value == "olora" || value == "loftq";
    return changes_base ? std::string_view(value) : "";
  }
  if (setting != "optimizer") return value;
  for (const config::Word<config::Optimizer>& word : config::words_of(config::Optimizer{})) {
    if (word.name == value && word.value) return word.value->name;
  }
  return value;
}

}  // namespace

void check_same_tensors(const RunSettings& before, const RunSettings& now, std::string_view where) {
  for (const char* name : {"adapter", "lora_r", "peft_use_dora", "relora", kInit, "optimizer", "bf16", kOverrides}) {
    const auto old = before.find(name), here = now.find(name);
    if (old == before.end() || here == now.end()) continue;
    if (tensors_of(name, old->second) == tensors_of(name, here->second)) continue;
    throw input_error(name,
                      "expected {}, with which {} was written, got {}; resume with the run's own, or begin a new run",
                      old->second, where, here->second);
  }
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
