#include "train/inference_program.h"

#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "plan/verify.h"
#include "train/session.h"

namespace spillway::train {

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
  make_plan(budget, pool.threads(), device);
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

void InferenceProgram::make_plan(const InferenceBudget& budget, int threads, const Device& device) {
  Machine machine = budget.machine;
  machine.device = device.kind();
  machine.threads = threads;
  Policy policy = saved_policy(Treatment::kKeep);
  Budget tiers;
  if (budget.device_bytes) {
    for (size_t i = 0; i < models_.size(); ++i) add_stored_weights(built_[i].parameters, models_[i].base, stored_);
    policy.in_files = stored_.in_files(graph_.values.size());
    // A disk tier, but no room on it: of the disk there are only the model's files.
    tiers = {.device = budget.device_bytes, .host = 0, .disk = 1};
  }
  plan_ = spillway::make_plan(graph_, machine, tiers, policy);
  const int64_t needed = plan_.peaks[0].bytes;
  if (!plan_.fits)
    throw input_error("--memory.device", "expected at least {}, got {}; raise it, or {}", format_bytes(needed),
                      format_bytes(*budget.device_bytes), budget.instead);
  const int64_t free = device.free_bytes();
  if (!device.shares_host_memory() && needed > free)
    throw machine_error("device", "expected {} of its memory, got {}; use --device cpu", format_bytes(needed),
                        format_bytes(free));
}

void InferenceProgram::run(const data::MicroBatch& rows, size_t model) {
  const Batch batch = batch_of(rows);
  for (const BatchColumn& column : built_[model].columns)
    copy_column(graph_.value(column.value), batch.content(column.column.name), executor_->home(column.value));
  executor_->set_rows(kTokenAxis, batch.tokens);
  executor_->run(static_cast<SectionId>(model));
}

}  // namespace spillway::train
