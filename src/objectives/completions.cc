#include "objectives/completions.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/math.h"
#include "ops/collectives/sum_over_ranks/sum_over_ranks.h"
#include "ops/sequence_sum/sequence_sum.h"

namespace spillway::train {
namespace {

void fill_ones(const TensorView& view, const TypicalBatch&) { std::fill_n(view.as<float>(), view.elems(), 1.0f); }
ValueType one_f32(const Graph&, const ModelGraph&) { return {DType::kF32, {1}}; }

}  // namespace

RowCompletions completions_of(const data::RowTable& rows, const data::Piece& row) {
  const std::span<const int32_t> ids = rows.ids(row);
  const auto prompt = static_cast<size_t>(rows.value("prompt_tokens", row));
  const bool is_pair = !std::ranges::equal(rows.schema(), data::kUnpairedColumns);
  const size_t first = is_pair ? static_cast<size_t>(rows.value("chosen_tokens", row)) : ids.size() - prompt;
  return {ids.first(prompt), ids.subspan(prompt, first), ids.subspan(prompt + first)};
}

void PreferenceObjective::observe(const Observation& seen, MetricSums& sums) const {
  sums.add("loss", seen.loss, static_cast<double>(seen.rows));
  observe_rows(seen, sums);
}

void PairObjective::fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
                         std::span<const data::Piece> pieces) const {
  data::MicroBatch& batch = streams[0];
  batch.clear();
  for (const data::Piece& piece : pieces) {
    add_pair(batch, rows, piece);
    ++batch.rows;
  }
}

// Throws InputError if no row has completions that differ, and warns if some have not.
void PairObjective::check(const data::RowTable& rows) const {
  int64_t equal = 0;
  for (int64_t i = 0; i < rows.size(); ++i) {
    const RowCompletions row = completions_of(rows, rows.row(i));
    equal += std::ranges::equal(row.first, row.second);
  }
  if (equal == 0) return;
  if (equal == rows.size())
    throw input_error("datasets",
                      "expected chosen completions that differ from the rejected ones, got {} rows in which "
                      "they are equal; correct the columns",
                      equal);
  log_warning("{} of {} rows have equal completions, which teach nothing", equal, rows.size());
}

int64_t predicted_tokens(std::span<const int32_t> prompt, std::span<const int32_t> completion) {
  return std::ssize(completion) - (prompt.empty() && !completion.empty() ? 1 : 0);
}

LossColumn labels_column(int stream) { return {{"labels", fill_typical_ids}, i32_per_token, stream}; }
LossColumn row_column(std::string_view name) { return {{name, fill_ones}, f32_per_row}; }
LossColumn token_column(std::string_view name) { return {{name, fill_ones}, f32_per_token}; }
LossColumn number_column(std::string_view name) { return {{name, fill_ones}, one_f32}; }

ValueId sum_of_sequences(Builder& builder, const ObjectiveInputs& inputs, ValueId per_token, ValueId weights,
                         int64_t which, int64_t of) {
  const ValueId sum = ops::sequence_sum(builder, per_token, weights, inputs.sequence_offsets(),
                                        {.axis = kRowAxis, .first = which, .stride = of});
  return inputs.context_ranks() == 1 ? sum : ops::sum_over_ranks(builder, sum, inputs.context_ranks());
}

CompletionScores::CompletionScores(Builder& builder, const ObjectiveInputs& inputs, int64_t sequences_per_row)
    : builder_(builder),
      inputs_(inputs),
      sequences_per_row_(sequences_per_row),
      tokens_(ops::linear_log_prob(builder, inputs.model().hidden, inputs.model().head, inputs.column("labels"), 1,
                                   inputs.model().logit_cap)) {}

ValueId CompletionScores::sum(ValueId per_token, int64_t which, ValueId weights) const {
  return sum_of_sequences(builder_, inputs_, per_token, weights, which, sequences_per_row_);
}

void add_reward_metrics(const Observation& seen, double beta, size_t chosen, size_t rejected, MetricSums& sums) {
  const auto reward = [&](size_t value, int64_t row) { return beta * seen.number(value, row); };
  sums.add("rewards/chosen", seen.mean([&](int64_t row) { return reward(chosen, row); }));
  sums.add("rewards/rejected", seen.mean([&](int64_t row) { return reward(rejected, row); }));
  sums.add_share("rewards/accuracies",
                 seen.mean([&](int64_t row) { return reward(chosen, row) > reward(rejected, row) ? 1.0 : 0.0; }));
  sums.add("rewards/margins", seen.mean([&](int64_t row) { return reward(chosen, row) - reward(rejected, row); }));
}

std::vector<std::string_view> completion_metric_keys(std::initializer_list<std::string_view> more) {
  std::vector<std::string_view> keys = {
      "loss",         "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins",
      "logps/chosen", "logps/rejected", "logits/chosen",    "logits/rejected"};
  keys.insert(keys.end(), more);
  return keys;
}

void add_row_mean(const Observation& seen, std::string_view key, size_t value, MetricSums& sums) {
  sums.add(key, seen.mean([&](int64_t row) { return seen.number(value, row); }));
}

std::optional<double> token_mean(const Observation& seen, std::initializer_list<size_t> values,
                                 std::initializer_list<std::string_view> tokens) {
  double sum = 0, count = 0;
  for (const size_t value : values) sum += seen.mean([&](int64_t row) { return seen.number(value, row); });
  for (const std::string_view column : tokens)
    count += seen.mean([&](int64_t row) { return seen.column(column, row); });
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

void add_token_mean(const Observation& seen, std::string_view key, std::initializer_list<size_t> values,
                    std::initializer_list<std::string_view> tokens, MetricSums& sums) {
  if (const std::optional<double> mean = token_mean(seen, values, tokens)) sums.add(key, *mean);
}

}  // namespace spillway::train
