// What the objectives share that compare completions: their sequences in a stream, their log-probabilities in a graph,
// and the metrics that all of them have.
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

// An objective by settings of preferences, whose loss is a mean over the rows of a micro-batch; micro-batches of a step
// count alike, as in TRL.
class PreferenceObjective : public Objective {
 public:
  explicit PreferenceObjective(config::PreferenceSettings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] std::string_view name() const override { return settings_.name; }
  [[nodiscard]] float scale(const StepTotals& step) const override {
    return 1.0f / static_cast<float>(step.micro_batches);
  }
  // The loss, and then observe_rows().
  void observe(const Observation& seen, MetricSums& sums) const final;

 protected:
  [[nodiscard]] const config::PreferenceSettings& settings() const { return settings_; }
  virtual void observe_rows(const Observation& seen, MetricSums& sums) const = 0;

 private:
  config::PreferenceSettings settings_;
};

// One that compares two completions, which stand together in its only stream.
class PairObjective : public PreferenceObjective {
 public:
  using PreferenceObjective::PreferenceObjective;

  [[nodiscard]] int64_t sequences_per_row() const override { return 2; }
  void check(const data::RowTable& rows) const override;
  void fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
            std::span<const data::Piece> pieces) const final;

 protected:
  // Puts the sequences of a row behind what the batch holds, with the columns of its own.
  virtual void add_pair(data::MicroBatch& batch, const data::RowTable& rows, const data::Piece& piece) const = 0;
};

// The prompt and the completions of a row: those of a pair the chosen first.
struct RowCompletions {
  std::span<const int32_t> prompt, first, second;
};
// REQUIRES: the rows have completions; of an unpaired row `second` is empty.
[[nodiscard]] RowCompletions completions_of(const data::RowTable& rows, const data::Piece& row);

// The completion's tokens that something predicts: all but the first of a row without a prompt.
[[nodiscard]] int64_t predicted_tokens(std::span<const int32_t> prompt, std::span<const int32_t> completion);

// The position in a sequence that predicts the first of those.
[[nodiscard]] inline int64_t first_prediction(std::span<const int32_t> prompt) {
  return prompt.empty() ? 0 : std::ssize(prompt) - 1;
}

// What each token of a stream predicts.
[[nodiscard]] LossColumn labels_column(int stream = 0);
// Numbers, ones where they are measured.
[[nodiscard]] LossColumn row_column(std::string_view name);
[[nodiscard]] LossColumn token_column(std::string_view name);
// One number of a micro-batch, f32 [1].
[[nodiscard]] LossColumn number_column(std::string_view name);

// The end of a model: what each token's label has, and sums of it over the sequences of the rows.
class CompletionScores {
 public:
  CompletionScores(Builder& builder, const ObjectiveInputs& inputs, int64_t sequences_per_row);

  [[nodiscard]] const ops::LogProb& tokens() const { return tokens_; }
  // f32 [rows]: of f32 [tokens], over the row's sequence number `which`; with f32 [tokens] of weights where given.
  [[nodiscard]] ValueId sum(ValueId per_token, int64_t which, ValueId weights = kNone) const;

 private:
  Builder& builder_;
  ValueId offsets_;
  int64_t sequences_per_row_;
  ops::LogProb tokens_;
};

// Means over the rows of a micro-batch, as TRL's trainers name them: rewards/chosen, rewards/rejected,
// rewards/accuracies, rewards/margins. A reward is `beta` times an observed value.
void add_reward_metrics(const Observation& seen, double beta, size_t chosen, size_t rejected, MetricSums& sums);
// The keys of these with the loss, those of logps and logits, and `more`.
[[nodiscard]] std::vector<std::string_view> completion_metric_keys(std::initializer_list<std::string_view> more);
// A mean over the rows of an observed value.
void add_row_mean(const Observation& seen, std::string_view key, size_t value, MetricSums& sums);
// A mean over tokens: the rows' sums of observed values over the rows' numbers of tokens, columns of the batch. Nothing
// where there are no tokens.
[[nodiscard]] std::optional<double> token_mean(const Observation& seen, std::initializer_list<size_t> values,
                                               std::initializer_list<std::string_view> tokens);
void add_token_mean(const Observation& seen, std::string_view key, std::initializer_list<size_t> values,
                    std::initializer_list<std::string_view> tokens, MetricSums& sums);

}  // namespace spillway::train
