#include "job/rows/row_job.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "config/keys.h"
#include "config/values.h"
#include "job/clips/clip_job.h"
#include "job/job.h"
#include "job/reference.h"
#include "job/training_data.h"
#include "model/adapter.h"
#include "objectives/distillation/distillation.h"
#include "objectives/preference.h"

namespace spillway::train {
namespace {

// A fresh adapter trains the score in full, as PEFT's adapters of classifiers do. A continued adapter says itself what
// it trains.
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

// Gives a reward model a score head, whatever its base has; all other models predict tokens. Texts are scored at their
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
  job.model = job.model->text()->with_score(there.value_or(scores_steps ? kStepScores : ScoreHead{}), job.padding);
  if (job.config.adapter) save_score(*job.config.adapter, *job.model);
}

void take_preference(const config::Config& config, Job& job) {
  job.graph.objective = preference_objective(*config.preference, config.batches.sequence_len, job.padding);
  const std::vector<ScorePass> passes = job.graph.objective->passes();
  const bool has_reference =
      std::any_of(passes.begin(), passes.end(), [](const ScorePass& pass) { return pass.by == ScoredBy::kReference; });
  if (has_reference) job.graph.reference = reference_options(config, *job.model, job.graph.model);
}

// Uses TRL's name of the loss, since axolotl's is for preferences.
void add_text_loss(RunSettings& settings, const config::Config& config) {
  constexpr std::string_view kNames[] = {"nll", "dft", "eaft"};  // by TextLoss
  settings["loss_type"] = kNames[static_cast<size_t>(config.text_loss)];
  if (config.text_loss == config::TextLoss::kWeightedByEntropy) {
    settings["eaft_alpha"] = config::print_value(config.entropy_weight.alpha);
    settings["eaft_k"] = config::print_value(config.entropy_weight.top);
  }
  settings["label_smoothing_factor"] = config::print_value(config.label_smoothing);
  settings["kd_trainer"] = config::print_value(config.distillation.has_value());
  config::Spelled keys;
  if (config.model.qat) static_cast<config::QatSettings&>(keys) = *config.model.qat;
  settings.merge(config::compared_values("Quantisation-aware training", 0, keys));
  if (!config.distillation) return;
  static_cast<config::DistillationSettings&>(keys) = *config.distillation;
  settings.merge(config::compared_values("Distillation", 0, keys));
}

void add_preference(RunSettings& settings, const config::PreferenceSettings& preference) {
  settings["rl"] = preference.name;
  std::vector<std::string> losses, weights;
  for (const config::WeightedLoss& one : preference.losses) {
    if (config::name_of(one.loss).empty()) continue;  // the only one of its objective
    losses.emplace_back(config::name_of(one.loss));
    weights.push_back(config::print_value(one.weight));
  }
  settings["dpo_loss_type"] = config::print_value(losses);
  settings["dpo_loss_weights"] = config::print_value(weights);
  config::Spelled keys;
  static_cast<config::PreferenceKeys&>(keys) = preference;
  settings.merge(config::compared_values("Preferences", config::read_by::kPreferences, keys));
  add_numbers(settings, {{"rl_beta", preference.beta},
                         {"dpo_ld_alpha", preference.ld_alpha.value_or(1)},
                         {"center_rewards_coefficient", preference.center_rewards_coefficient}});
  settings["ref_model"] = config::print_value(preference.ref_model);
  add_sync(settings, preference.sync);
}

// Adds packing under the keys that selected it: axolotl's or TRL's.
void add_packing(RunSettings& settings, const data::BatchOptions& options) {
  using data::PackingStrategy;
  const bool sequential = options.packing == PackingStrategy::kSequential;
  const bool axolotls = sequential || options.packing == PackingStrategy::kFirstFit;
  const bool trls = options.packing && !axolotls;
  const bool by_batch = options.packing_scope_rows > 0;
  settings["sample_packing"] = config::print_value(axolotls);
  settings["sample_packing_sequentially"] = config::print_value(sequential);
  settings["sample_packing_bin_size"] = config::print_value(options.line_rows);
  settings["packing"] = config::print_value(trls);
  settings["packing_strategy"] = config::print_value(trls ? *options.packing : PackingStrategy::kBfd);
  settings["packing_scope"] =
      config::print_value(by_batch ? config::PackingScope::kBatch : config::PackingScope::kDataset);
}

}  // namespace

void add_lines(const config::Config& config, RunSettings& settings) {
  const data::BatchOptions& options = config.data.batches;
  settings["sequence_len"] = config::print_value(config.batches.sequence_len);
  add_packing(settings, options);
  settings["group_by_length"] = config::print_value(options.order == data::RowOrder::kGroupedByLength);
}

void RowJob::take_model(Job& job) const {
  check_no_video_keys(job.config);
  take_score(job.config, job);
}

RowShape RowJob::read(const RunKind*, Job& job) {
  return {.sequences = data::sequences_of(job.config.data.rows.objective)};
}

void RowJob::take_objective(Job& job) const {
  const config::Config& config = job.config;
  if (config.text_loss == config::TextLoss::kWeightedByProbability) job.graph.objective = weighted_text_objective();
  if (config.text_loss == config::TextLoss::kWeightedByEntropy)
    job.graph.objective = entropy_weighted_text_objective(config.entropy_weight);
  if (config.label_smoothing > 0) job.graph.objective = smoothed_text_objective(config.label_smoothing);
  if (config.distillation) {
    job.graph.objective = distillation_objective(*config.distillation);
    job.graph.reference = teacher_options(config, *job.model, job.graph.model);
  }
  if (config.preference) take_preference(config, job);
}

void RowJob::check_files(const Job& job) const { check_data_files(job.config.data); }

TrainingData RowJob::load(const Job& job, const std::optional<std::tm>& now,
                          const std::function<void(int64_t records)>& progress) const {
  progress(0);
  return load_training_data(job.config.data, job.config.tokenizer, job.model->text()->vocab_size, progress, now);
}

std::string RowJob::method(const Job& job) const {
  if (job.config.preference) return job.config.preference->name;
  if (job.config.distillation) return "kd";
  return job.config.text_loss == config::TextLoss::kCrossEntropy ? "" : std::string(job.graph.objective->name());
}

CardWords RowJob::card(const Job& job) const {
  const config::Config& c = job.config;
  if (!c.preference) {
    if (c.data.stream) return {"pretraining", "pretraining", "text-generation"};
    return {"sft", "supervised fine-tuning", "text-generation"};
  }
  if (c.preference->kind == config::PreferenceKind::kReward)
    return {"reward-trainer", "reward modelling", "text-classification", "ForSequenceClassification"};
  if (c.preference->kind == config::PreferenceKind::kSteps)
    return {"prm", "reward modelling of steps", "token-classification", "ForTokenClassification"};
  return {c.preference->name, "training by preferences", "text-generation"};
}

void RowJob::add_settings(const Job& job, RunSettings& settings) const {
  job.config.preference ? add_preference(settings, *job.config.preference) : add_text_loss(settings, job.config);
  add_lines(job.config, settings);
}

}  // namespace spillway::train
