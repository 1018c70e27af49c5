#include "job/job.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/index.h"
#include "base/local_time.h"
#include "base/math.h"
#include "base/text.h"
#include "config/values.h"
#include "infer/linear_storage.h"
#include "job/adapter_restart.h"
#include "job/adapter_start.h"
#include "job/lisa.h"
#include "job/lora_options.h"
#include "job/offload_policy.h"
#include "job/optimizer_options.h"
#include "job/unfrozen.h"
#include "job/vocabulary_growth.h"
#include "job/weight_groups.h"
#include "model/decoder/layer.h"
#include "model/layout.h"
#include "model/wrapper_parts.h"

namespace spillway::train {
namespace {

ModelOptions model_options(const config::ModelSettings& model, const config::BatchSettings& batches,
                           const RowShape& row, int64_t context_ranks, std::optional<LoraOptions> lora) {
  ModelOptions options{.dtype = model.bf16 ? DType::kBF16 : DType::kF32};
  options.max_rows = batches.micro_batch_size;
  options.tokens = std::max(batches.micro_batch_size * row.sequences * batches.sequence_len, batches.eval_sequence_len);
  options.context_ranks = context_ranks;
  options.sequence_len = std::max(batches.sequence_len, batches.eval_sequence_len);
  // A sequence has at least two tokens, or it has no target; a clip is one sequence.
  options.max_sequences = std::max<int64_t>(1, batches.has_single_tokens ? options.tokens : options.tokens / 2);
  if (row.text_tokens > 0) {
    options.max_sequences = batches.micro_batch_size;
    options.text_tokens = row.text_tokens;
  }
  options.mlp_tiles = batches.mlp_tiles;
  options.neftune_noise_alpha = model.neftune_noise_alpha;
  if (batches.is_padding_free) options.neftune_length = ops::NoiseLength::kAllSequences;
  if (model.qat) options.fake_quantisation = fake_quantisation_of(*model.qat);
  options.train_base = !lora;
  options.lora = std::move(lora);
  return options;
}

// Returns the options of the adapter that is trained; none if all weights are trained.
std::optional<LoraOptions> take_adapter(Job& job) {
  if (!job.config.adapter) return {};
  return lora_options(*job.config.adapter, job.model, job.notes);
}

// Notes that only the text model inside a larger model is trained, and names the other parts.
void note_wrapper_parts(const ParameterTable& parameters, Job& job) {
  const TextModel* text = job.model->text();
  if (text == nullptr || text->wrapper.empty()) return;
  const std::filesystem::path base = job.config.model.base_model;
  std::string others = "what else it holds";
  if (has_weights(base))
    if (const std::vector<std::string> names = names_of_wrapper_parts(open_weights(base), parameters); !names.empty())
      others = fmt::format("{}", fmt::join(names, ", "));
  job.notes.push_back(fmt::format("base_model: the text model of {} is trained; not read, and left as it is: {}",
                                  text->wrapper, others));
}

void take_optimizer(Job& job) {
  const config::Config& config = job.config;
  const ops::OptimizerDef& optimizer = *ops::find_optimizer(config.optimizer.optimizer.name);
  job.graph.optimizer = &optimizer;
  job.graph.optimizer_options = optimizer_options(optimizer, config.optimizer);
  job.graph.decays_all = config.optimizer.decays_all;
  job.graph.masters = config.model.masters;
  job.graph.max_grad_norm = config.optimizer.max_grad_norm;
  job.graph.ranks = narrow<int>(config.ranks.count);
  job.graph.copies = narrow<int>(config.ranks.copies);
  job.graph.together = narrow<int>(config.ranks.together);
  job.graph.splits_states = config.ranks.zero_stage > 0;
  job.graph.splits_weights = config.ranks.zero_stage == 3;
  job.graph.accumulates = config.batches.gradient_accumulation_steps > 1 || job.graph.ranks > 1;
  job.other_groups = config.batches.other_groups;
  if (const std::vector<std::string_view> unread = unread_keys(optimizer, config.optimizer); !unread.empty())
    job.notes.push_back(fmt::format("ignored: {} ({} does not read {})", fmt::join(unread, ", "),
                                    config::print_value(config.optimizer.optimizer),
                                    unread.size() == 1 ? "it" : "them"));
  if (rounds_stochastically(config.optimizer, config.model.masters)) job.graph.rounding_seed = config.seed;
}

// Throws InputError for a home of experts that the model does not have.
void check_experts(const Job& job) {
  const config::Offload said = job.config.offload.experts.value_or(config::Offload::kNone);
  if (said == config::Offload::kNone || has_mixture(*job.model)) return;
  throw input_error("expert_offload", "expected a mixture of experts, got {}, whose layers are dense; remove it",
                    quote(job.config.model.base_model));
}

// Throws InputError where ranks cannot share the sequences of the job.
void check_context(const Job& job) {
  constexpr const char* kKey = "context_parallel_size";
  const int64_t context = job.config.ranks.context;
  if (context == 1) return;
  const auto check_heads = [&](int64_t heads) {
    if (context > heads)
      throw input_error(kKey, "expected at most the query heads of a layer, {}, got {}; lower it", heads, context);
  };
  if (const VideoModel* const video = job.model->video()) return check_heads(video->heads);
  const Model* const value = job.graph.value ? job.graph.value->model.get() : nullptr;
  for (const Model* model : {job.model.get(), job.graph.reference.other.get(), value}) {
    if (model == nullptr) continue;
    for (const DecoderLayer& layer : model->text()->layers()) {
      if (layer.has_attention) check_heads(layer.attention.heads);
    }
  }
}

// Sets the learning rates of weights that differ from the others, and which weights decay.
void take_rates(Job& job) {
  const config::Config& config = job.config;
  const ParameterTable parameters = parameters_of(*job.model, job.graph.model);
  WeightGroups groups;
  if (config.optimizer.lr_groups)
    groups = weight_groups(parameters, *config.optimizer.lr_groups, config.adapter.has_value());
  if (config.adapter && config.adapter->loraplus_lr_ratio) {
    const double ratio = *config.adapter->loraplus_lr_ratio;
    if (config.optimizer.lr_groups) {
      raise_rates_of_b(parameters, ratio, groups.rate_ratios);
    } else {
      groups = loraplus_groups(parameters, ratio);
      job.graph.decays_all = true;
    }
  }
  job.graph.rate_ratios = std::move(groups.rate_ratios);
  job.graph.undecayed = std::move(groups.undecayed);
}

// Takes the coefficient of the load-balancing loss: the run's, else that of the model's config.json, where that asks
// for the loss or TRL adds it.
void take_router_loss(Job& job) {
  const std::optional<double>& said = job.config.model.router_aux_loss_coef;
  const TextModel* const text = job.model->text();
  const bool has_loss = text != nullptr && text->router_aux_loss_coef.has_value();
  if (said.value_or(0) != 0 && !has_loss)
    throw input_error("router_aux_loss_coef",
                      "expected 0 for a model without routers that are trained to use all experts alike, got {}; {}",
                      *said, "remove it, or name a mixture such as Mixtral, Qwen3-MoE or OLMoE");
  double unsaid = has_loss ? *text->router_aux_loss_coef : 0;
  if (!said && has_loss && job.config.model.adds_router_loss && text->named_router_coef != unsaid) {
    unsaid = text->named_router_coef;
    job.notes.push_back(
        fmt::format("left out, so as TRL has it: router_aux_loss_coef {}, that of config.json", unsaid));
  }
  job.graph.model.router_aux_loss_coef = said.value_or(unsaid);
  job.graph.model.reports_expert_load = true;
}

// Fresh weights replace all weights of a folder, which is not possible for a part of a larger model.
void check_reinitialised(const Job& job) {
  if (!job.config.model.reinitialised) return;
  if (job.model->text() == nullptr || !job.model->text()->wrapper.empty())
    throw input_error("reinit_weights", "expected a model of text that stands alone, got another; name another model");
}

void take_unfrozen(Job& job) {
  for (auto& [name, rows] : unfrozen_weights(parameters_of(*job.model), job.config.model.unfrozen_parameters)) {
    job.graph.model.unfrozen.insert(name);
    if (!rows.empty()) job.graph.trained_rows.emplace(name, rows);
  }
}

// Selects the storage of the base's linear layers. `parameters` are the job's, with its adapter.
void take_base(const ParameterTable& parameters, Job& job) {
  infer::check_base(job.config, parameters);
  job.graph.model.linear_storage = infer::linear_storage(job.config, parameters, job.graph.model.dtype);
  const ParameterTable kept = parameters_of(*job.model, job.graph.model);
  if (job.graph.model.lora) check_adapter_start(kept, *job.graph.model.lora);
  check_restarts(job, kept);
  for (std::string& note : infer::notes_on_base(job.config, kept)) job.notes.push_back(std::move(note));
}

// Checks the context of a text model, and reads its sample prompts.
void take_text(Job& job) {
  const config::Config& config = job.config;
  const TextModel& text = text_of(*job.model, "base_model");
  if (config.samples.every_steps > 0 && config.samples.prompts.empty())
    throw input_error("sample_every_steps", "expected prompts to answer, got none; set sample_prompts");
  if (!config.samples.prompts.empty()) check_predicts_tokens(text, "sample_prompts");
  job.samples = read_sample_prompts(job.config, text.vocab_size, job.now);
  if (config.batches.sequence_len > text.max_position_embeddings) {
    job.notes.push_back(fmt::format(
        "{}: {} is beyond max_position_embeddings of {}, {}: no position behind that was trained",
        config.batches.length_key, config.batches.sequence_len, config.model.base_model, text.max_position_embeddings));
  }
}

std::string adapter_text(const TrainingGraphOptions& options) {
  if (!options.model.lora) {
    if (options.drawn) return fmt::format("full fine-tuning, {} layers at a time", options.drawn->numbers.size());
    const size_t weights = options.model.unfrozen.size();
    return weights == 0 ? "full fine-tuning" : fmt::format("full fine-tuning of {} weights", weights);
  }
  const LoraOptions& lora = *options.model.lora;
  std::set<std::string, std::less<>> names = lora.target_modules;
  names.insert(lora.target_parameters.begin(), lora.target_parameters.end());
  std::string targets = names.empty() ? "all linear" : fmt::format("{}", fmt::join(names, ", "));
  if (!lora.modules_to_save.empty()) targets += fmt::format(" + {}", fmt::join(lora.modules_to_save, ", "));
  const std::string base =
      options.model.linear_storage ? fmt::format(" over {}", options.model.linear_storage->storage->name()) : "";
  return fmt::format("{} r={}, {}{}", lora.dora ? "DoRA" : "LoRA", lora.r, targets, base);
}

std::string make_title(const Job& job, const Machine& machine) {
  std::filesystem::path folder = job.config.model.base_model;
  if (!folder.has_filename()) folder = folder.parent_path();
  // The title of a diffusers transformer is its pipeline's name.
  const bool is_part = job.model->video() && folder.filename().string().starts_with("transformer");
  if (is_part && folder.has_parent_path()) folder = folder.parent_path();
  const std::string name = folder.filename().string();
  const int64_t sequences = data::sequences_of(job.config.data.rows.objective);
  std::string method = job.kind->method(job);
  if (!method.empty()) method += " · ";
  return fmt::format("{} · {}{} · {} x {}{} {} per micro-batch · {} · {}, {} {}", name, method, adapter_text(job.graph),
                     job.config.batches.micro_batch_size, sequences == 1 ? "" : fmt::format("{} x ", sequences),
                     job.config.batches.sequence_len, job.kind->unit(), name_of(job.graph.model.dtype), machine.name,
                     machine.threads, machine.threads == 1 ? "core" : "cores");
}

// Throws InputError if output_dir is the folder of a model that is read: files may be read again in every step.
void check_output_dir(const config::Config& config) {
  const std::string& output = config.output.output_dir;
  const auto check = [&](std::string_view key, const std::filesystem::path& folder) {
    std::error_code no_such_folder;
    if (!std::filesystem::equivalent(output, folder, no_such_folder)) return;
    throw input_error("output_dir", "expected another folder than {}'s, got {} for both; name a new one", key,
                      quote(output));
  };
  check("base_model", config.model.base_model);
  if (config.preference && !config.preference->ref_model.empty()) check("ref_model", config.preference->ref_model);
  if (config.distillation) check("teacher_model_name_or_path", config.distillation->teacher_model_name_or_path);
  if (config.online && !config.online->ppo.value_model.empty())
    check("value_model_path", config.online->ppo.value_model);
}

// Throws InputError if the objective is known not to report the metric for the best model.
void check_best_metric(const Job& job) {
  const config::BestSettings& best = job.config.output.best;
  if (job.kind->generation(job).at_once > 0 && best.is_kept && best.metric == "loss")
    throw input_error("metric_for_best_model",
                      "expected a number of an evaluation of completions, which has no loss, got {}; write reward, or "
                      "another that metrics.jsonl has behind eval_",
                      quote(best.metric));
  const std::vector<std::string_view> keys = job.graph.objective->metric_keys();
  if (!best.is_kept || keys.empty() || std::find(keys.begin(), keys.end(), best.metric) != keys.end()) return;
  const std::string_view near = nearest_name(best.metric, keys);
  throw input_error("metric_for_best_model", "expected one of the evaluation's numbers ({}), got {}; {}",
                    joined_names(keys), quote(best.metric),
                    near.empty() ? "name one of them" : fmt::format("did you mean {}?", near));
}

}  // namespace

Job make_job(const config::Config& said, const Machine& machine, const JobSources& sources) {
  check_output_dir(said);
  Job job{.config = said,
          .model = read_model(said.model.base_model, said.model.config_overrides),
          .now = sources.now.value_or(local_now())};
  job.model->check_trains();
  const config::Config& config = job.config;
  const std::shared_ptr<RunKind> kind = make_run_kind(config, *job.model);
  job.kind = kind;
  kind->take_model(job);
  std::optional<LoraOptions> lora = take_adapter(job);
  const ParameterTable parameters = parameters_of(*job.model, {.train_base = !lora, .lora = lora});
  note_wrapper_parts(parameters, job);
  if (job.model->text()) {
    const std::vector<std::string> grown = grow_vocabulary(job.config.tokenizer, job.model, parameters);
    job.notes.insert(job.notes.end(), grown.begin(), grown.end());
  }
  const RowShape row = kind->read(sources.rows ? sources.rows->kind.get() : nullptr, job);
  job.graph.model = model_options(config.model, config.batches, row, config.ranks.context, std::move(lora));
  take_optimizer(job);
  take_unfrozen(job);
  if (config.model.lisa) job.graph.drawn = heaviest_layers(job);
  check_experts(job);
  take_expert_homes(job);
  take_rates(job);
  take_base(parameters, job);
  check_reinitialised(job);
  kind->take_objective(job);
  take_router_loss(job);
  check_context(job);
  check_best_metric(job);
  if (job.model->text()) take_text(job);
  job.policy = make_policy(config.offload, attention_windows(*job.model), config.batches.sequence_len);
  job.budget = make_budget(config.memory, job.policy, machine);
  job.graph = graph_options(job, config.batches.micro_batch_group);
  job.title = make_title(job, machine);
  return job;
}

bool streams_experts(const Job& job) {
  if (!has_mixture(*job.model)) return false;
  if (job.config.batches.micro_batch_group > 1 && !job.config.offload.experts) return false;
  if (job.config.offload.experts == config::Offload::kAuto) return true;
  const Policy policy = make_policy(job.config.offload);
  const auto moves = [&](ValueKind kind) {
    return policy.home_of({.kind = kind, .block = 0, .part = std::string(kExpertPart)}).value_or(Tier::kDevice) !=
           Tier::kDevice;
  };
  const ModelOptions& model = job.graph.model;
  return (model.train_base && moves(ValueKind::kTrainableWeight)) ||
         ((!model.train_base || !model.unfrozen.empty()) && moves(ValueKind::kFrozenWeight));
}

void take_expert_homes(Job& job) {
  ModelOptions& model = job.graph.model;
  model.streams_experts = streams_experts(job);
  model.experts_apart = model.streams_experts || job.config.offload.experts.has_value();
}

TrainingGraphOptions graph_options(const Job& job, int64_t group) {
  TrainingGraphOptions options = job.graph;
  options.micro_batches = group;
  options.is_whole_step = options.ranks == 1 && group > 1 && group == micro_batches_of_rank(job);
  return options;
}

std::optional<LayerDraws> layer_draws(const Job& job) {
  const std::optional<config::LisaSettings>& lisa = job.config.model.lisa;
  if (!lisa) return {};
  const int64_t layers = count_layers(parameters_of(*job.model, job.graph.model), job.graph.drawn->list);
  return LayerDraws(job.config.seed, layers, lisa->layers, lisa->interval);
}

int64_t updates_per_step(const Job& job) { return job.kind->updates_per_step(job); }

int64_t micro_batches_of_rank(const Job& job) {
  return div_ceil(job.config.batches.gradient_accumulation_steps, job.config.ranks.groups());
}

}  // namespace spillway::train
