// Shared parts of the objectives that train on completions which the run itself generates: the completions of a round
// in a stream, and the inputs of their losses. Formulas and names are TRL 1.16's (GRPOTrainer, RLOOTrainer,
// OnlineDPOTrainer) and 1.10's (PPOTrainer).
//
// A row is one sequence: a prompt with its completion; Online DPO has two of them per row. The numbers of a token stand
// at the position that predicts it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "config/online_settings.h"
#include "objectives/completions.h"

namespace spillway::train {

// A completion that is trained on. Per-token numbers have as many elements as `ids`, or none if the objective does not
// ask for them.
struct TrainedCompletion {
  std::span<const int32_t> prompt, ids;
  bool is_masked = false;  // its tokens count for nothing: mask_truncated_completions
  double advantage = 0;    // of the whole completion
  double score = 0;        // of Online DPO and PPO, in the place of that
  std::span<const float> old_logps, ref_logps;
  // For PPO: one per token; one per state; one per state and one for the state after the last token.
  std::span<const float> advantages, returns, values;

  [[nodiscard]] int64_t tokens() const { return is_masked ? 0 : std::ssize(ids); }
};

// Totals of the round of a micro-batch, and numbers of the step.
struct RoundTotals {
  int64_t tokens = 0;       // that count, of all completions
  int64_t longest = 0;      // of the longest completion
  double entropy_coef = 0;  // what the entropy counts
  int64_t epoch = 0;        // that the round is of
};

// The entropy of the tokens that the policy loss acts on.
struct ActingEntropy {
  double sum = 0, tokens = 0;
};

class OnlineObjective : public Objective {
 public:
  OnlineObjective(config::OnlineSettings settings, bool has_old_logps)
      : settings_(std::move(settings)), has_old_logps_(has_old_logps) {}

  [[nodiscard]] std::string_view name() const override { return settings_.name; }
  [[nodiscard]] int64_t sequences_per_row() const override { return 1; }
  [[nodiscard]] bool generates() const final { return true; }
  // Weights the micro-batches equally, as TRL does.
  [[nodiscard]] float scale(const StepTotals& step) const override {
    return 1.0f / static_cast<float>(step.micro_batches);
  }
  [[nodiscard]] std::vector<ScorePass> passes() const override;
  [[nodiscard]] std::vector<ValueId> append_scores(Builder& builder, const ScorePass& pass,
                                                   const ObjectiveInputs& inputs) const override;
  // Replaces the content of a micro-batch with completions. `round` is null for passes that run before training.
  virtual void fill(data::MicroBatch& stream, std::span<const TrainedCompletion> rows, const RoundTotals* round) const;
  using Objective::fill;

  // Returns the entropy of a micro-batch. REQUIRES: settings().adaptive_entropy.
  [[nodiscard]] virtual ActingEntropy acting_entropy(const Observation& seen) const;

  [[nodiscard]] const config::OnlineSettings& settings() const { return settings_; }
  // Returns true if the log-probabilities of completions are scored when they are generated, because an update may come
  // before they are trained on. Otherwise training computes them itself.
  [[nodiscard]] bool has_old_logps() const { return has_old_logps_; }
  [[nodiscard]] bool has_reference() const {
    return settings_.beta() != 0 || settings_.kind == config::OnlineKind::kPpo;
  }

 protected:
  [[nodiscard]] std::vector<LossColumn> shared_columns() const;
  // The divisor of the logits in training: the sampling temperature.
  [[nodiscard]] virtual double temperature() const { return settings_.completions.temperature; }
  // Appends the numbers of the last sequence's completion to a column at the positions that predict its tokens, and 0
  // at its other positions.
  static void add_per_token(std::vector<float>& column, const TrainedCompletion& row, std::span<const float> numbers);
  // Appends the log-probability and the entropy of each token.
  [[nodiscard]] ops::LogProb tokens(Builder& builder, const ObjectiveInputs& inputs) const;
  // Returns f32 [rows]: the sum of `per_token`, f32 [tokens], over each completion.
  [[nodiscard]] static ValueId sum(Builder& builder, const ObjectiveInputs& inputs, ValueId per_token,
                                   ValueId weights = kNone);
  // Returns f32 [tokens]: each completion's number at all of its tokens.
  [[nodiscard]] static ValueId spread(Builder& builder, const ObjectiveInputs& inputs, ValueId per_row);

 private:
  config::OnlineSettings settings_;
  bool has_old_logps_;
};

// Names of the scores of the passes, and of columns: per row the advantage and the number of tokens that count; per
// token 1 if it counts, else 0.
inline constexpr std::string_view kOldLogps = "old_logps", kRefLogps = "ref_logps", kValues = "values";
inline constexpr std::string_view kAdvantages = "advantages", kCompletionTokens = "completion_tokens",
                                  kTokenMask = "token_mask";

// Returns the objective for steps of `accumulation` micro-batches.
[[nodiscard]] std::shared_ptr<const OnlineObjective> online_objective(const config::OnlineSettings& settings,
                                                                      int64_t accumulation);

}  // namespace spillway::train
