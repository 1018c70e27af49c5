// Shared parts of the objectives that compare completions: their sequences in a stream, their log-probabilities in a
// graph, and the metrics that all of them report.
//
// A row of the data is one or two sequences that stand together in the stream, each a prompt with a completion; the
// labels of a sequence are its completion's tokens.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "config/preference_settings.h"
#include "objectives/objective.h"
#include "ops/linear_log_prob/linear_log_prob.h"

namespace spillway::train {

// An objective with the settings of preference training, whose loss is a mean over the rows of a micro-batch. The
// micro-batches of a step have equal weight, as in TRL.
class PreferenceObjective : public Objective {
 public:
  explicit PreferenceObjective(config::PreferenceSettings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] std::string_view name() const override { return settings_.name; }
  [[nodiscard]] float scale(const StepTotals& step) const override {
    return 1.0f / static_cast<float>(step.micro_batches);
  }
  // Adds the loss, and what observe_rows() adds.
  void observe(const Observation& seen, MetricSums& sums) const final;

 protected:
  [[nodiscard]] const config::PreferenceSettings& settings() const { return settings_; }
  virtual void observe_rows(const Observation& seen, MetricSums& sums) const = 0;

 private:
  config::PreferenceSettings settings_;
};

// An objective that compares two completions, which stand together in its only stream.
class PairObjective : public PreferenceObjective {
 public:
  using PreferenceObjective::PreferenceObjective;

  [[nodiscard]] int64_t sequences_per_row() const override { return 2; }
  void check(const data::RowTable& rows) const override;
  void fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
            std::span<const data::Piece> pieces) const final;

 protected:
  // Appends the sequences of a row to the batch, with the objective's own columns.
  virtual void add_pair(data::MicroBatch& batch, const data::RowTable& rows, const data::Piece& piece) const = 0;
};

// The prompt and the completions of a row; the first of a pair is the chosen one.
struct RowCompletions {
  std::span<const int32_t> prompt, first, second;
};
// Returns them. `second` is empty for an unpaired row. REQUIRES: the rows have completions.
[[nodiscard]] RowCompletions completions_of(const data::RowTable& rows, const data::Piece& row);

// Returns how many of the completion's tokens are predicted: all, except for the first one if there is no prompt.
[[nodiscard]] int64_t predicted_tokens(std::span<const int32_t> prompt, std::span<const int32_t> completion);

// Returns the position in the sequence that predicts the first of those tokens.
[[nodiscard]] inline int64_t first_prediction(std::span<const int32_t> prompt) {
  return prompt.empty() ? 0 : std::ssize(prompt) - 1;
}

// The column of the token that each position predicts.
[[nodiscard]] LossColumn labels_column(int stream = 0);
// Columns of numbers: per row of the data, and per token. Filled with ones when operations are measured.
[[nodiscard]] LossColumn row_column(std::string_view name);
[[nodiscard]] LossColumn token_column(std::string_view name);
// A column with one number per micro-batch, f32 [1].
[[nodiscard]] LossColumn number_column(std::string_view name);

// Returns f32 [rows]: the sum of `per_token`, f32 [tokens], over sequence number `which` of the `of` sequences of each
// row, weighted by `weights`, f32 [tokens], if given. Ranks that share the sequences all have the sums of whole ones,
// with the same bits; what each computes of them is the same, too.
[[nodiscard]] ValueId sum_of_sequences(Builder& builder, const ObjectiveInputs& inputs, ValueId per_token,
                                       ValueId weights, int64_t which, int64_t of);

// Appends the log-probabilities of the labels to a model, and sums of them over the sequences of the rows.
class CompletionScores {
 public:
  // Borrows its arguments.
  CompletionScores(Builder& builder, const ObjectiveInputs& inputs, int64_t sequences_per_row);

  [[nodiscard]] const ops::LogProb& tokens() const { return tokens_; }
  // Returns sum_of_sequences().
  [[nodiscard]] ValueId sum(ValueId per_token, int64_t which, ValueId weights = kNone) const;

 private:
  Builder& builder_;
  const ObjectiveInputs& inputs_;
  int64_t sequences_per_row_;
  ops::LogProb tokens_;
};

// Adds means over the rows of a micro-batch under the names of TRL's trainers: rewards/chosen, rewards/rejected,
// rewards/accuracies, rewards/margins. A reward is `beta` times an observed value.
void add_reward_metrics(const Observation& seen, double beta, size_t chosen, size_t rejected, MetricSums& sums);
// Returns the keys of these metrics, the loss, the logps and logits metrics, and `more`.
[[nodiscard]] std::vector<std::string_view> completion_metric_keys(std::initializer_list<std::string_view> more);
// Adds the mean over the rows of an observed value.
void add_row_mean(const Observation& seen, std::string_view key, size_t value, MetricSums& sums);
// Returns a mean over tokens: the rows' sums in `values` divided by the rows' numbers of tokens, which are columns of
// the batch. Returns nothing if there are no tokens.
[[nodiscard]] std::optional<double> token_mean(const Observation& seen, std::initializer_list<size_t> values,
                                               std::initializer_list<std::string_view> tokens);
void add_token_mean(const Observation& seen, std::string_view key, std::initializer_list<size_t> values,
                    std::initializer_list<std::string_view> tokens, MetricSums& sums);

}  // namespace spillway::train
