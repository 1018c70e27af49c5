#include "objectives/passes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "objectives/frozen_copies.h"

namespace spillway::train {
namespace {

Section section_of(const ScorePass& pass) { return {.name = std::string(pass.section)}; }

void fill_typical_scores(const TensorView& view, const TypicalBatch&) {
  std::fill_n(view.as<float>(), view.elems(), -1.0f);
}

}  // namespace

ObjectiveBuilder::ObjectiveBuilder(const Model& model, const ModelOptions& options, ObjectivePtr objective,
                                   const ReferenceOptions& reference, const std::optional<ValueModel>& value)
    : model_(model), options_(options), reference_(reference), value_(value) {
  result_.objective = std::move(objective);
  result_.copies_change = reference.is_synced;
}

std::vector<ScorePass> ObjectiveBuilder::passes_to_run() const {
  std::vector<ScorePass> passes = result_.objective->passes();
  std::erase_if(passes, [&](const ScorePass& pass) { return is_known(pass); });
  return passes;
}

Section ObjectiveBuilder::first_section(const Section& forward) const {
  const std::vector<ScorePass> passes = passes_to_run();
  return passes.empty() ? forward : section_of(passes.front());
}

void ObjectiveBuilder::append_passes(Builder& builder, const Section& forward) {
  declare_axes(builder);
  const std::vector<ScorePass> passes = passes_to_run();
  for (const ScorePass& pass : passes) {
    if (&pass != passes.data()) builder.begin_section(section_of(pass));
    append_pass(builder, pass);
  }
  if (!passes.empty()) builder.begin_section(forward);
}

std::vector<ScorePass> ObjectiveBuilder::known_passes() const {
  std::vector<ScorePass> passes = result_.objective->passes();
  std::erase_if(passes, [&](const ScorePass& pass) { return !is_known(pass); });
  return passes;
}

AppendedObjective ObjectiveBuilder::append_known(Builder& builder) {
  declare_axes(builder);
  bool is_first = true;
  for (const ScorePass& pass : known_passes()) {
    if (!std::exchange(is_first, false)) builder.begin_section(section_of(pass));
    append_pass(builder, pass);
  }
  for (const auto& [name, value] : scores_) builder.result(value);
  return std::move(result_);
}

ModelGraph ObjectiveBuilder::build_for(Builder& builder, const ScorePass& pass) const {
  const bool is_reference = pass.by == ScoredBy::kReference, is_value = pass.by == ScoredBy::kValue;
  ModelOptions options = is_value ? value_->options : is_reference ? *reference_.model : options_;
  // Scores before training are computed as the completions were generated, without dropout; the reference is not
  // trained.
  if (is_reference || is_known(pass)) options = options.without_dropout();
  options.router_aux_loss_coef = 0;
  options.reports_expert_load = false;
  options.stream = pass.stream;
  if (is_value) return value_->model->build(builder, options);
  return (is_reference && reference_.other ? *reference_.other : model_).build(builder, options);
}

void ObjectiveBuilder::append_pass(Builder& builder, const ScorePass& pass) {
  result_.passes.push_back(
      {static_cast<SectionId>(builder.graph().sections.size() - 1), pass.stream, pass.scores.size()});
  ModelGraph built = build_for(builder, pass);
  for (const Parameter& p : built.parameters) {
    if (p.is_copy && !result_.copies.find(p.name)) result_.copies.add(p);
  }
  add_columns(builder, built, pass.stream);
  ObjectiveInputs inputs(built, result_.columns);
  inputs.set_context_ranks(options_.context_ranks);
  const std::vector<ValueId> scores = result_.objective->append_scores(builder, pass, inputs);
  SPILLWAY_CHECK(scores.size() == pass.scores.size(), "{} scores instead of {}", scores.size(), pass.scores.size());
  for (size_t i = 0; i < scores.size(); ++i) scores_.emplace_back(pass.scores[i], scores[i]);
  if (pass.by == ScoredBy::kReference) reference_model_ = std::move(built);
}

// Adds the axes of tokens and of rows, whose numbers are known to objectives, before a model adds others.
void ObjectiveBuilder::declare_axes(Builder& builder) const {
  if (result_.objective->sequences_per_row() == 0) return;
  (void)builder.add_axis({.name = "tokens", .capacity = options_.own_tokens()});
  const AxisId axis = builder.add_axis({.name = "rows", .capacity = options_.max_rows});
  SPILLWAY_CHECK(axis == kRowAxis, "the axis of rows is number {}", static_cast<int>(axis));
}

// Adds the model's columns of the stream and those of the objective, each once.
void ObjectiveBuilder::add_columns(Builder& builder, const ModelGraph& model, int stream) {
  const auto is_there = [&](std::string_view name) {
    return std::any_of(result_.columns.begin(), result_.columns.end(),
                       [&](const BatchColumn& c) { return c.column.name == name && c.stream == stream; });
  };
  for (const BatchColumn& c : model.columns) {
    if (!is_there(c.column.name)) result_.columns.push_back(c);
  }
  for (const LossColumn& c : result_.objective->columns()) {
    if (c.stream == stream && !is_there(c.column.name))
      (void)add_column(builder, c.column, c.type(builder.graph(), model), result_.columns, stream);
  }
}

// Declares the copies that passes before training read and training does not, so that all programs of the job have them
// in one place.
void ObjectiveBuilder::keep_copies(Builder& builder) {
  const Model& model = reference_.other ? *reference_.other : model_;
  for (const Parameter& p : declare_copies(builder, model, *reference_.model, model_blocks_)) result_.copies.add(p);
}

std::optional<ModelGraph> ObjectiveBuilder::append_value_model(Builder& builder) {
  model_blocks_ = builder.graph().blocks.size();
  if (!value_) return {};
  return value_->model->build(builder, value_->options);
}

AppendedObjective ObjectiveBuilder::append_loss(Builder& builder, const ModelGraph& model,
                                                const std::optional<ModelGraph>& value, ops::LossGradients gradients) {
  const Objective& objective = *result_.objective;
  add_columns(builder, model, 0);
  for (const ScorePass& pass : known_passes()) {
    if (pass.by == ScoredBy::kReference && !reference_.is_precomputed) keep_copies(builder);
    const ValueType type = pass.type(builder.graph(), model);
    for (const std::string_view name : pass.scores)
      scores_.emplace_back(name, add_column(builder, {name, fill_typical_scores}, type, result_.columns));
  }
  result_.scale = builder.input("batch.loss_scale", {DType::kF32, {1}}, ValueKind::kBatch);
  ObjectiveInputs inputs(model, result_.columns, value ? &*value : nullptr, gradients);
  inputs.set_context_ranks(options_.context_ranks);
  for (const auto& [name, score] : scores_) inputs.add_score(name, score);
  if (reference_model_) inputs.set_reference_model(*reference_model_);
  const Loss loss = objective.append(builder, inputs, result_.scale);
  result_.loss = loss.loss;
  result_.loss_result = builder.graph().results.size();
  builder.result(loss.loss);
  for (const ValueId observed : loss.observed) builder.result(observed);
  for (const ModelMetric& metric : model.metrics) {
    builder.result(metric.value);
    result_.model_metrics.push_back(metric);
  }
  result_.observed = loss.observed.size() + model.metrics.size();
  if (model.router_loss) result_.router_loss_weight = model.router_loss->weight;
  return std::move(result_);
}

}  // namespace spillway::train
