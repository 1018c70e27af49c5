#include "train/job.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/bytes.h"
#include "base/error.h"
#include "base/index.h"
#include "base/local_time.h"
#include "base/text.h"
#include "graph/verify.h"
#include "model/adapter.h"
#include "model/layout.h"
#include "rewards/outside.h"
#include "train/adapter_start.h"
#include "train/generation_plan.h"
#include "train/linear_storage.h"
#include "train/lora_options.h"
#include "train/objectives/flow/flow.h"
#include "train/objectives/preference.h"
#include "train/offload_policy.h"
#include "train/online/round_forecast.h"
#include "train/online/value_model.h"
#include "train/optimizer_options.h"
#include "train/reference.h"
#include "train/unfrozen.h"
#include "train/vocabulary_growth.h"

namespace spillway::train {
namespace {

ModelOptions model_options(const config::ModelSettings& model, const config::BatchSettings& batches,
                           int64_t sequences_per_row, int64_t text_tokens, std::optional<LoraOptions> lora) {
  ModelOptions options{.dtype = model.bf16 ? DType::kBF16 : DType::kF32};
  options.max_rows = batches.micro_batch_size;
  options.tokens = batches.micro_batch_size * sequences_per_row * batches.sequence_len;
  options.sequence_len = batches.sequence_len;
  // A sequence has two tokens at least, or it has no target; a clip is one.
  options.max_sequences = std::max<int64_t>(1, batches.has_single_tokens ? options.tokens : options.tokens / 2);
  if (text_tokens > 0) {
    options.max_sequences = batches.micro_batch_size;
    options.text_tokens = text_tokens;
  }
  options.train_base = !lora;
  options.lora = std::move(lora);
  return options;
}

// PEFT's create_loraplus_optimizer decays nothing, whatever weight_decay says.
void take_loraplus(double ratio, Job& job) {
  job.graph.loraplus_lr_ratio = ratio;
  if (job.graph.optimizer_options.real(ops::kWeightDecay.name) != 0)
    job.notes.emplace_back("loraplus_lr_ratio: nothing decays, as in PEFT; weight_decay is not used");
  job.graph.optimizer_options.set(ops::kWeightDecay.name, 0.0);
}

// A fresh adapter trains the score in full, as PEFT's do for classifiers. One that goes on says itself what it trains.
void save_score(config::AdapterSettings& adapter, const Model& model) {
  std::vector<std::string>& saved = adapter.modules_to_save;
  const bool is_fresh = adapter.model_dir.empty();
  if (is_fresh && std::find(saved.begin(), saved.end(), "score") == saved.end()) saved.emplace_back("score");
  if (is_fresh) return;
  const bool is_new = !parameters_of(model).find("score.weight")->is_of_model();
  if (is_new && !is_saved_in_full(read_adapter_options(adapter.model_dir), "score.weight"))
    throw input_error("lora_model_dir",
                      "expected an adapter with a score beside a base without one, got {}; name another",
                      quote(adapter.model_dir));
}

// A reward model has a score for a head, whatever its base has; all else predicts tokens. Texts are scored at their
// last token that is not padding.
void take_score(const config::Config& config, Job& job) {
  if (!config.preference || !trains_score(config.preference->kind))
    return check_predicts_tokens(text_of(*job.model, "base_model"), "base_model");
  const bool scores_steps = config.preference->kind == config::PreferenceKind::kSteps;
  const std::optional<ScoreHead> there = text_of(*job.model, "base_model").score;
  if (there && there->is_of_tokens != scores_steps)
    throw input_error("base_model",
                      "expected a model of text or one that scores {}, got one that scores {}; name another",
                      scores_steps ? "steps" : "texts", scores_steps ? "texts" : "steps");
  if (!scores_steps)
    job.padding = text::Tokenizer::load(config.tokenizer.folder, config.tokenizer.special_tokens).fill_id();
  job.model = job.model->with_score(there.value_or(scores_steps ? kStepScores : ScoreHead{}), job.padding);
  if (job.config.adapter) save_score(*job.config.adapter, *job.model);
}

void take_preference(const config::Config& config, Job& job) {
  job.graph.objective = preference_objective(*config.preference, config.batches.sequence_len, job.padding);
  const std::vector<ScorePass> passes = job.graph.objective->passes();
  const bool has_reference =
      std::any_of(passes.begin(), passes.end(), [](const ScorePass& pass) { return pass.by == ScoredBy::kReference; });
  if (has_reference) job.graph.reference = reference_options(config, *job.model, job.graph.model);
}

// The streams of a job over clips are as long as the clips can be.
void take_clips(const Job* rows, Job& job) {
  job.clips = make_clip_job(job.config, *job.model, rows ? &*rows->clips : nullptr);
  job.config.batches.sequence_len = job.clips->max_patches;
}

// The context that a model of text has, and what it answers while it is trained.
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

// The streams of a job that generates are as long as its prompts and completions can be.
void take_prompts(const Job* rows, Job& job) {
  job.online = make_online_job(job.config, text_of(*job.model, "base_model"), job.now, rows ? &*rows->online : nullptr);
  job.config.batches.sequence_len = job.online->sequence_len;
}

void take_online(Job& job) {
  job.graph.objective = job.online->objective;
  if (job.online->objective->has_reference())
    job.graph.reference = {.model = policy_at_first(job.config, *job.model, job.graph.model),
                           .is_synced = job.config.online->sync.has_value()};
  if (job.config.online->kind == config::OnlineKind::kPpo)
    job.graph.value = value_model(job.config, *job.model, job.graph.model);
  for (const JobRewardModel& one : job.online->reward_models) {
    ModelBeside beside{one.model->model(), one.model->options()};
    beside.options.copy_prefix = fmt::format("reward.{}.", job.graph.beside.size());
    for (const Parameter& p : parameters_of(*beside.model, beside.options)) beside.options.copies.insert(p.name);
    job.graph.beside.push_back(std::move(beside));
  }
}

std::string adapter_text(const TrainingGraphOptions& options) {
  if (!options.model.lora) {
    const size_t weights = options.model.unfrozen.size();
    return weights == 0 ? "full fine-tuning" : fmt::format("full fine-tuning of {} weights", weights);
  }
  const LoraOptions& lora = *options.model.lora;
  std::string targets = "all linear";
  if (!lora.target_modules.empty()) targets = fmt::format("{}", fmt::join(lora.target_modules, ", "));
  if (!lora.modules_to_save.empty()) targets += fmt::format(" + {}", fmt::join(lora.modules_to_save, ", "));
  const std::string base =
      options.model.linear_storage ? fmt::format(" over {}", options.model.linear_storage->storage->name()) : "";
  return fmt::format("{} r={}, {}{}", lora.dora ? "DoRA" : "LoRA", lora.r, targets, base);
}

std::string make_title(const Job& job, const Machine& machine) {
  std::filesystem::path folder = job.config.model.base_model;
  if (!folder.has_filename()) folder = folder.parent_path();
  // A transformer of diffusers goes by its pipeline's name.
  if (job.clips && folder.has_parent_path()) folder = folder.parent_path();
  const std::string name = folder.filename().string();
  const int64_t sequences = data::sequences_of(job.config.data.rows.objective);
  std::string objective;
  if (job.config.preference) objective = fmt::format("{} · ", job.config.preference->name);
  if (job.config.online) objective = fmt::format("{} · ", job.config.online->name);
  return fmt::format("{} · {}{} · {} x {}{} {} per micro-batch · {} · {}, {} {}", name, objective,
                     adapter_text(job.graph), job.config.batches.micro_batch_size,
                     sequences == 1 ? "" : fmt::format("{} x ", sequences), job.config.batches.sequence_len,
                     job.clips ? "patches" : "tokens", name_of(job.graph.model.dtype), machine.name, machine.threads,
                     machine.threads == 1 ? "core" : "cores");
}

// A folder without weights can be planned for, too.
StoredWeights stored_weights(const Job& job, const TrainingGraph& training) {
  StoredWeights stored;
  const auto add = [&](const ParameterTable& parameters, const std::filesystem::path& folder) {
    if (has_weights(folder)) add_stored_weights(parameters, open_weights(folder), stored);
  };
  add(training.model.parameters, job.config.model.base_model);
  const bool is_of_adapter = job.graph.reference.model && !job.graph.reference.other && job.config.adapter &&
                             !job.config.adapter->model_dir.empty();
  if (training.objective.copies.size() > 0 && !is_of_adapter && !training.objective.copies_change)
    add(training.objective.copies, reference_folder(job.config));
  for (size_t i = 0; i < training.beside.size(); ++i)
    add(training.beside[i], job.online->reward_models[i].model->folder());
  return stored;
}

int64_t stored_bytes(const Graph& graph, const StoredWeights& stored) {
  int64_t sum = 0;
  for (const auto& [id, place] : stored.places) sum += graph.value(id).type.bytes();
  return sum;
}

int64_t ram_bytes(const Machine& machine) {
  const int64_t host = nth(machine.capacity_bytes, Tier::kHost);
  return host > 0 ? host : nth(machine.capacity_bytes, Tier::kDevice);
}

// What the arenas may have of the job's budget: reading files past the page cache takes memory beside them. Below zero
// where that alone is too much, so that the bytes missing are all that are.
Budget arena_budget(const Job& job, bool direct_files) {
  Budget budget = job.budget;
  std::optional<int64_t>& ram = budget.host ? budget.host : budget.device;
  if (direct_files && ram) *ram -= TierOptions::staging_bytes();
  return budget;
}

// With what the user's files hold.
Policy policy_of(const Job& job, const PlannedJob& planned) {
  Policy policy = job.policy;
  if (job.budget.disk.value_or(0) > 0) policy.in_files = planned.stored.in_files(planned.training.graph.values.size());
  return policy;
}

void plan_evaluation(const Job& job, const Machine& machine, const Budget& budget, const Policy& policy,
                     PlannedJob& planned) {
  planned.evaluation.graph = build_evaluation_graph(*job.model, job.graph, planned.training);
  const Graph& graph = planned.evaluation.graph.graph;
  planned.evaluation.plan =
      make_plan_beside(planned.training.graph, planned.plan.choices, graph, machine, budget, policy.in_files);
}

void plan_scoring(const Job& job, const Machine& machine, const Budget& budget, const Policy& policy,
                  PlannedJob& planned) {
  PlannedJob::Scoring& scoring = planned.scoring.emplace();
  scoring.name = job.online ? "scores of a round" : "precompute_ref_log_probs";
  scoring.graph = build_scoring_graph(*job.model, job.graph, planned.training);
  const Graph& graph = scoring.graph.graph;
  scoring.plan =
      make_plan_beside(planned.training.graph, planned.plan.choices, graph, machine, budget, policy.in_files);
}

void plan_rewards(const Job& job, const Machine& machine, const Budget& budget, const Policy& policy,
                  PlannedJob& planned) {
  for (size_t i = 0; i < job.graph.beside.size(); ++i) {
    const JobRewardModel& model = job.online->reward_models[i];
    PlannedJob::Reward& reward = planned.rewards.emplace_back();
    reward.name = fmt::format("the reward model {}", rewards::file_name(model.model->folder()));
    reward.graph = build_reward_graph(job.graph.beside[i], model.room, planned.training);
    const Graph& graph = reward.graph.graph;
    reward.plan =
        make_plan_beside(planned.training.graph, planned.plan.choices, graph, machine, budget, policy.in_files);
  }
}

// What each program needs that runs between training's sections.
void note_others(PlannedJob& planned) {
  for (const JobProgram& program : programs_of(planned)) {
    if (program.plan == &planned.plan) continue;
    PlanContext::Change& beside = planned.context.beside.emplace_back();
    beside.text = program.name;
    for (size_t i = 0; i < kBudgetedTiers; ++i) beside.bytes[i] = program.plan->peaks[i].bytes;
  }
}

// For those who read the plan.
std::optional<PlanContext::Reference> reference_of(const Job& job, const PlannedJob& planned) {
  const ReferenceOptions& reference = job.graph.reference;
  if (!reference.model) return {};
  if (reference.is_precomputed) return PlanContext::Reference{"scores all rows before the first step; no copies"};
  const ParameterTable& copies = planned.training.objective.copies;
  if (copies.size() == 0) return PlanContext::Reference{"the model without the adapter; no copies"};
  PlanContext::Reference result{reference.other ? fmt::format("{}, frozen", job.config.preference->ref_model)
                                                : "frozen copies"};
  for (const Operand& home : planned.plan.program.homes) {
    const bool is_copy = std::any_of(copies.begin(), copies.end(), [&](const Parameter& p) {
      return std::find(p.values.begin(), p.values.end(), home.value) != p.values.end();
    });
    if (is_copy) nth(result.copy_bytes, home.place.tier) += home.place.bytes;
  }
  return result;
}

// What is trained must not replace what it was read from, which may be read again in every step.
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
  if (config.online && !config.online->ppo.value_model.empty())
    check("value_model_path", config.online->ppo.value_model);
}

// Of what the objective says before it has seen anything.
void check_best_metric(const config::Config& config, const Objective& objective) {
  const config::BestSettings& best = config.output.best;
  const std::vector<std::string_view> keys = objective.metric_keys();
  if (!best.is_kept || keys.empty() || std::find(keys.begin(), keys.end(), best.metric) != keys.end()) return;
  const std::string_view near = nearest_name(best.metric, keys);
  throw input_error("metric_for_best_model", "expected one of the evaluation's numbers ({}), got {}; {}",
                    joined_names(keys), quote(best.metric),
                    near.empty() ? "name one of them" : fmt::format("did you mean {}?", near));
}

}  // namespace

Job make_job(const config::Config& said, const Machine& machine, const JobSources& sources) {
  check_output_dir(said);
  Job job{.config = said, .model = read_model(said.model.base_model), .now = sources.now.value_or(local_now())};
  const config::Config& config = job.config;
  if (job.model->video()) {
    take_clips(sources.rows, job);
  } else {
    check_no_video_keys(config);
    take_score(config, job);
  }
  std::optional<LoraOptions> lora;
  if (config.adapter) lora = lora_options(*job.config.adapter, job.model);
  if (lora && config.adapter->alpha != 0 && config.adapter->alpha != lora->alpha)
    job.notes.push_back(fmt::format("lora_alpha is {}, as {} says, and not {}", lora->alpha, config.adapter->model_dir,
                                    config.adapter->alpha));
  const ParameterTable parameters = parameters_of(*job.model, {.train_base = !lora, .lora = lora});
  if (job.model->text()) {
    const std::vector<std::string> grown = grow_vocabulary(job.config.tokenizer, job.model, parameters);
    job.notes.insert(job.notes.end(), grown.begin(), grown.end());
  }
  const ops::OptimizerDef* optimizer = ops::find_optimizer(config.optimizer.optimizer.name);
  if (config.online) take_prompts(sources.rows, job);
  const int64_t sequences_per_row =
      job.online ? job.online->objective->sequences_per_row() : data::sequences_of(config.data.rows.objective);
  job.graph = {.model = model_options(config.model, config.batches, sequences_per_row,
                                      job.clips ? job.clips->flow.text_len : 0, std::move(lora)),
               .optimizer = optimizer,
               .optimizer_options = optimizer_options(*optimizer, config.optimizer),
               .masters = config.model.masters,
               .max_grad_norm = config.optimizer.max_grad_norm,
               .accumulates = config.batches.gradient_accumulation_steps > 1};
  if (rounds_stochastically(config.optimizer, config.model.masters)) job.graph.rounding_seed = config.seed;
  if (config.adapter && config.adapter->loraplus_lr_ratio) take_loraplus(*config.adapter->loraplus_lr_ratio, job);
  for (auto& [name, rows] : unfrozen_weights(parameters_of(*job.model), config.model.unfrozen_parameters)) {
    job.graph.model.unfrozen.insert(name);
    if (!rows.empty()) job.graph.trained_rows.emplace(name, rows);
  }
  check_codes_are_frozen(config, parameters);
  job.graph.model.linear_storage = linear_storage(config, parameters, job.graph.model.dtype);
  if (job.graph.model.lora) check_adapter_start(parameters_of(*job.model, job.graph.model), *job.graph.model.lora);
  if (config.preference) take_preference(config, job);
  if (config.online) take_online(job);
  if (const std::optional<config::EmaSettings>& ema = config.video.ema; ema && job.clips)
    job.graph.ema = {.decay = ema->decay, .start_step = ema->start_step};
  if (job.clips) job.graph.objective = flow_objective(job.clips->preconditions, config.samples.every_steps > 0);
  check_best_metric(config, *job.graph.objective);
  if (job.model->text()) take_text(job);
  job.policy = make_policy(config.offload, job.model->attention_windows(), config.batches.sequence_len);
  job.budget = make_budget(config.memory, job.policy, machine);
  job.title = make_title(job, machine);
  return job;
}

int64_t updates_per_step(const Job& job) { return job.config.online ? job.config.online->updates_per_step() : 1; }

std::vector<JobProgram> programs_of(const PlannedJob& planned) {
  std::vector<JobProgram> programs = {{"training", &planned.training.graph, &planned.plan},
                                      {"evaluation", &planned.evaluation.graph.graph, &planned.evaluation.plan}};
  if (const auto& scoring = planned.scoring) programs.push_back({scoring->name, &scoring->graph.graph, &scoring->plan});
  for (const PlannedJob::Reward& reward : planned.rewards)
    programs.push_back({reward.name, &reward.graph.graph, &reward.plan});
  if (const auto& generation = planned.generation) {
    programs.push_back({generation->name, &generation->graphs.decode.graph, &generation->decode});
    programs.push_back({generation->prompt_name, &generation->graphs.prompt.graph, &generation->prompt});
    if (generation->gather) programs.push_back({"gathered weights", &*generation->graphs.gather, &*generation->gather});
  }
  return programs;
}

int64_t peak_bytes(const PlannedJob& planned, Tier tier) {
  int64_t most = 0;
  for (const JobProgram& program : programs_of(planned)) most = std::max(most, nth(program.plan->peaks, tier).bytes);
  return most;
}

int64_t arena_bytes(const PlannedJob& planned, Tier tier) {
  int64_t most = 0;
  for (const JobProgram& program : programs_of(planned))
    most = std::max(most, nth(program.plan->program.arena_bytes, tier));
  return most;
}

std::string shortage_beside(const PlannedJob& planned) {
  const PlanContext& context = planned.context;
  for (const PlanContext::Change& program : context.beside) {
    for (size_t i = 0; i < kBudgetedTiers; ++i) {
      const std::optional<int64_t> most = context.budget.of(static_cast<Tier>(i));
      if (!most || program.bytes[i] <= *most) continue;
      const std::string needed = format_bytes(program.bytes[i]), got = format_bytes(*most);
      if (const int64_t streamed = planned.generation ? planned.generation->streamed_bytes : 0; streamed > 0)
        return fmt::format(
            "[ds3_gather_for_generation] expected at least {} of {} for all weights on the device while "
            "completions are generated, got {}; raise it, or set false, which takes {}",
            needed, context.budget_keys[i], got, format_bytes(streamed));
      return fmt::format("[{}] expected at least {} for {}, got {}; raise it, or ask for less", context.budget_keys[i],
                         needed, program.text, got);
    }
  }
  return "";
}

PlannedJob plan_job(const Job& job, const Machine& machine) {
  return plan_job(job, machine, build_training_graph(*job.model, job.graph));
}

PlannedJob plan_job(const Job& job, const Machine& machine, TrainingGraph training,
                    std::vector<FrontierPoint>* frontier) {
  PlannedJob result{.training = std::move(training)};
  const Graph& graph = result.training.graph;
  result.context = {.title = job.title,
                    .budget = job.budget,
                    .accumulation = job.config.batches.gradient_accumulation_steps,
                    .updates = updates_per_step(job)};
  result.context.budget_keys = budget_keys(job.config.memory);
  if (job.budget.disk.value_or(0) > 0) {
    result.stored = stored_weights(job, result.training);
    const int64_t ram = ram_bytes(machine);
    result.direct_files = ram > 0 && stored_bytes(graph, result.stored) > ram / 2;
  }
  const Budget budget = arena_budget(job, result.direct_files);
  const Policy policy = policy_of(job, result);
  result.plan = make_plan(graph, machine, budget, policy, result.context.accumulation, frontier);
  plan_evaluation(job, machine, budget, policy, result);
  const bool scores_rounds = job.online && !job.online->objective->passes().empty();
  if (job.graph.reference.is_precomputed || scores_rounds) plan_scoring(job, machine, budget, policy, result);
  if (job.online || !job.samples.empty()) plan_generation({job, machine, budget, policy}, result);
  plan_rewards(job, machine, budget, policy, result);
  note_others(result);
  if (job.online) result.context.generation = forecast_round(job, result, machine);
  result.context.reference = reference_of(job, result);
  if (job.graph.value)
    result.context.value_model = fmt::format("{}, trained in full: its layers stand behind the model's",
                                             rewards::file_name(job.config.online->ppo.value_model));
  for (const JobProgram& program : programs_of(result)) {
    const std::vector<std::string> violations = verify(*program.graph);
    SPILLWAY_CHECK(violations.empty(), "the graph of {} is wrong: {}", program.name, violations.front());
  }
  return result;
}

}  // namespace spillway::train
