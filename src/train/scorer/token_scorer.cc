#include "train/scorer/token_scorer.h"

#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "ops/linear_log_prob/linear_log_prob.h"
#include "plan/verify.h"
#include "train/session.h"

namespace spillway::train {
namespace {

// What each token predicts.
const Column kLabels{"labels", fill_typical_ids};

// A result has room for more tokens than a batch.
std::vector<float> numbers_of(const TensorView& view, int64_t tokens) {
  const auto* numbers = view.as<float>();
  return {numbers, numbers + tokens};
}

}  // namespace

TokenScorer::TokenScorer(InferenceModel model, const TokenScorerOptions& options, ThreadPool& pool, Device& device)
    : model_(std::move(model)) {
  build(options);
  make_plan(options, pool.threads(), device);
  const std::vector<std::string> violations = verify(graph_, plan_.program);
  SPILLWAY_CHECK(violations.empty(), "the plan's program is wrong: {}", violations.front());
  executor_.emplace(graph_, plan_.program, pool,
                    ExecutorOptions{.tiers = {.device = &device, .files = stored_.files, .in_files = stored_.places}});
  model_.load(built_.parameters, executor_->values());
}

void TokenScorer::build(const TokenScorerOptions& options) {
  graph_.name = "scores";
  ModelOptions built = model_.options;
  built.tokens = options.tokens;
  built.max_sequences = options.max_sequences;
  built.sequence_len = options.sequence_len;
  Builder builder(graph_, {.name = "score"});
  built_ = model_.model->build(builder, built);
  const ValueId labels = add_column(builder, kLabels, {DType::kI32, {options.tokens}, kTokenAxis}, built_.columns);
  const ops::LogProb scores = ops::linear_log_prob(builder, built_.hidden, built_.head, labels);
  builder.result(scores.log_prob);
  builder.result(scores.is_likeliest);
}

void TokenScorer::make_plan(const TokenScorerOptions& options, int threads, const Device& device) {
  Machine machine = options.machine;
  machine.device = device.kind();
  machine.threads = threads;
  Policy policy = saved_policy(Treatment::kKeep);
  Budget budget;
  if (options.device_bytes) {
    add_stored_weights(built_.parameters, model_.base, stored_);
    policy.in_files = stored_.in_files(graph_.values.size());
    // A disk tier, but no room on it: of the disk there are only the model's files.
    budget = {.device = options.device_bytes, .host = 0, .disk = 1};
  }
  plan_ = spillway::make_plan(graph_, machine, budget, policy);
  const int64_t needed = plan_.peaks[0].bytes;
  if (!plan_.fits)
    throw input_error("--memory.device", "expected at least {}, got {}; raise it, or score shorter texts",
                      format_bytes(needed), format_bytes(*options.device_bytes));
  const int64_t free = device.free_bytes();
  if (!device.shares_host_memory() && needed > free)
    throw machine_error("device", "expected {} of its memory, got {}; use --device cpu", format_bytes(needed),
                        format_bytes(free));
}

const TokenScores& TokenScorer::score(const data::MicroBatch& rows) {
  const Batch batch = batch_of(rows);
  for (const BatchColumn& column : built_.columns)
    copy_column(graph_.value(column.value), batch.content(column.column.name), executor_->home(column.value));
  executor_->set_rows(kTokenAxis, batch.tokens);
  executor_->run(0);
  scores_.log_probs = numbers_of(executor_->result(0), batch.tokens);
  scores_.are_likeliest = numbers_of(executor_->result(1), batch.tokens);
  return scores_;
}

}  // namespace spillway::train
