#include "infer/inference_program.h"

#include <utility>

#include "base/error.h"
#include "infer/batch.h"
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
  build(sizes, finish);
  if (budget.device_bytes) {
    for (size_t i = 0; i < models_.size(); ++i) add_stored_weights(built_[i].parameters, models_[i].base, stored_);
  }
  plan_ = std::move(plan_inference({&graph_}, stored_, budget, pool.threads(), device).front());
  const std::vector<std::string> violations = verify(graph_, plan_.program);
  SPILLWAY_CHECK(violations.empty(), "the plan's program is wrong: {}", violations.front());
  executor_.emplace(graph_, plan_.program, pool,
                    ExecutorOptions{.tiers = {.device = &device, .files = stored_.files, .in_files = stored_.places}});
  for (size_t i = 0; i < models_.size(); ++i) models_[i].load(built_[i].parameters, executor_->values());
}

void InferenceProgram::build(const ModelOptions& sizes, const std::function<void(Builder&, ModelGraph&)>& finish) {
  graph_.name = "inference";
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
  }
}

void InferenceProgram::run(const data::MicroBatch& rows, size_t model) {
  const Batch batch = batch_of(rows);
  for (const BatchColumn& column : built_[model].columns)
    copy_column(graph_.value(column.value), batch.content(column.column.name), executor_->home(column.value));
  executor_->set_rows(kTokenAxis, batch.tokens);
  executor_->run(static_cast<SectionId>(model));
}

}  // namespace spillway::infer
