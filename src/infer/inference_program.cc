#include "infer/inference_program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "graph/repeat_by_block.h"
#include "infer/batch.h"
#include "model/decoder/layer.h"
#include "plan/hiding_count.h"
#include "plan/verify.h"

namespace spillway::infer {

namespace {

std::vector<InferenceModel> list_of(InferenceModel model) {
  std::vector<InferenceModel> models;
  models.push_back(std::move(model));
  return models;
}

}  // namespace

InferenceProgram::InferenceProgram(InferenceModel model, const ModelOptions& sizes, const InferenceBudget& budget,
                                   const std::function<void(Builder&, ModelGraph&)>& finish, ThreadPool& pool,
                                   Device& device)
    : InferenceProgram(list_of(std::move(model)), sizes, budget, finish, pool, device) {}

InferenceProgram::InferenceProgram(std::vector<InferenceModel> models, const ModelOptions& sizes,
                                   const InferenceBudget& budget,
                                   const std::function<void(Builder&, ModelGraph&)>& finish, ThreadPool& pool,
                                   Device& device)
    : models_(std::move(models)) {
  build(sizes, budget, finish);
  if (waits_for_experts(budget, pool.threads(), device)) {
    for (InferenceModel& model : models_) model.stream_experts();
    build(sizes, budget, finish);
  }
  plan(budget, pool.threads(), device);
  const std::vector<std::string> violations = verify(graph_, plan_.program);
  SPILLWAY_CHECK(violations.empty(), "the plan's program is wrong: {}", violations.front());
  executor_.emplace(graph_, plan_.program, pool,
                    ExecutorOptions{.tiers = {.device = &device, .files = stored_.files, .in_files = stored_.places}});
  for (size_t i = 0; i < models_.size(); ++i) models_[i].load(built_[i].parameters, executor_->values());
}

bool InferenceProgram::waits_for_experts(const InferenceBudget& budget, int threads, const Device& device) const {
  const auto is_mixture = [](const InferenceModel& model) { return has_mixture(*model.model); };
  if (!budget.device_bytes || std::none_of(models_.begin(), models_.end(), is_mixture)) return false;
  const std::optional<std::vector<Plan>> plans = plans_within({&graph_}, stored_, budget, threads, device);
  return !plans || waits_for_transfers(plans->front());
}

// Where a run waits for what it reads, takes as many batches at a time as hide that.
void InferenceProgram::plan(const InferenceBudget& budget, int threads, const Device& device) {
  group_.emplace_back();
  for (const ModelGraph& model : built_) group_.front().push_back(model.columns);
  plan_ = std::move(plan_inference({&graph_}, stored_, budget, threads, device).front());
  if (!budget.device_bytes || !waits_for_transfers(plan_)) return;
  for (int64_t count = hiding_count(plan_, kMaxTogether); count > 1; count /= 2) {
    Graph together = graph_;
    const RepeatedValues repeated = repeat_by_block(together, count);
    std::optional<std::vector<Plan>> plans = plans_within({&together}, stored_, budget, threads, device);
    if (!plans || !gains_together(plans->front(), plan_, count)) continue;
    for (int64_t number = 1; number < count; ++number) {
      group_.push_back(group_.front());
      for (Columns& columns : group_.back())
        for (BatchColumn& column : columns) column.value = repeated.of(column.value, number);
    }
    graph_ = std::move(together);
    plan_ = std::move(plans->front());
    return;
  }
}

void InferenceProgram::build(const ModelOptions& sizes, const InferenceBudget& budget,
                             const std::function<void(Builder&, ModelGraph&)>& finish) {
  graph_ = {.name = "inference"};
  built_.clear();
  stored_ = {};
  const Section section{.name = "inference"};
  Builder builder(graph_, section);
  for (const InferenceModel& model : models_) {
    ModelOptions options = model.options;
    options.tokens = sizes.tokens;
    options.max_sequences = sizes.max_sequences;
    options.sequence_len = sizes.sequence_len;
    options.text_tokens = sizes.text_tokens;
    if (!built_.empty()) {
      const size_t number = built_.size() + 1;
      options.prefix = fmt::format("{}.", number);
      builder.begin_section({.name = fmt::format("{} {}", section.name, number)});
    }
    built_.push_back(model.model->build(builder, options));
    finish(builder, built_.back());
    if (budget.device_bytes) add_stored_weights(built_.back().parameters, model.base, stored_);
  }
}

void InferenceProgram::run(std::span<const data::MicroBatch> batches, size_t model) {
  SPILLWAY_CHECK(!batches.empty() && batches.size() <= group_.size(), "{} batches at once", batches.size());
  const auto axes = std::ssize(graph_.axes) / std::ssize(group_);
  for (size_t i = 0; i < group_.size(); ++i) {
    const Batch batch = i < batches.size() ? batch_of(batches[i]) : Batch();
    for (const BatchColumn& column : group_[i][model]) {
      const Value& value = graph_.value(column.value);
      const TensorView to = executor_->home(column.value);
      i < batches.size() ? copy_column(value, batch.content(column.column.name), to) : clear_column(value, to);
    }
    executor_->set_rows(static_cast<AxisId>(static_cast<int64_t>(i) * axes), batch.tokens);
  }
  executor_->run(static_cast<SectionId>(model));
}

}  // namespace spillway::infer
