#include "train/objectives/dpo/dpo.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/pointwise/pointwise.h"
#include "train/objectives/completions.h"
#include "train/objectives/dpo/losses.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

constexpr std::string_view kRefChosen = "ref_chosen_logps", kRefRejected = "ref_rejected_logps";
// Columns of numbers a row: lengths of the completions, and how many of their tokens are predicted.
constexpr std::string_view kChosenTokens = "chosen_tokens", kRejectedTokens = "rejected_tokens",
                           kChosenPredicted = "chosen_predicted", kRejectedPredicted = "rejected_predicted";
constexpr std::string_view kTokenWeights = "token_weights";  // of ld_alpha, a number a token

// In Loss::observed.
enum Observed : size_t {
  kChosen,
  kRejected,
  kChosenRatio,
  kRejectedRatio,
  kChosenLogits,
  kRejectedLogits,
  kChosenEntropy,
  kRejectedEntropy,
  kCorrect
};

class Dpo final : public Objective {
 public:
  explicit Dpo(config::PreferenceSettings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] std::string_view name() const override { return settings_.name; }
  [[nodiscard]] int64_t sequences_per_row() const override { return 2; }
  void check(const data::RowTable& rows) const override { check_pairs(rows); }

  void fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
            std::span<const data::Piece> pieces) const override {
    data::MicroBatch& batch = streams[0];
    batch.clear();
    for (const data::Piece& piece : pieces) add_pair(batch, completions_of(rows, piece));
  }

  [[nodiscard]] std::vector<LossColumn> columns() const override {
    std::vector<LossColumn> columns = {labels_column(), row_column(kChosenTokens), row_column(kRejectedTokens),
                                       row_column(kChosenPredicted), row_column(kRejectedPredicted)};
    if (settings_.ld_alpha) columns.push_back(token_column(kTokenWeights));
    return columns;
  }

  [[nodiscard]] std::vector<ScorePass> passes() const override {
    return {{.section = "reference", .scores = {kRefChosen, kRefRejected}}};
  }
  [[nodiscard]] std::vector<ValueId> append_scores(Builder& builder, const ScorePass&,
                                                   const ObjectiveInputs& in) const override {
    const CompletionScores scores(builder, in, 2);
    const ValueId tokens = scores.tokens().log_prob, weights = token_weights(in);
    return {scores.sum(tokens, 0, weights), scores.sum(tokens, 1, weights)};
  }

  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale,
                            ops::LossGradients) const override {
    const CompletionScores scores(builder, in, 2);
    const ops::LogProb& tokens = scores.tokens();
    const ValueId weights = token_weights(in);
    dpo::Pairs pairs{.chosen = scores.sum(tokens.log_prob, 0, weights),
                     .rejected = scores.sum(tokens.log_prob, 1, weights),
                     .ref_chosen = in.score(kRefChosen),
                     .ref_rejected = in.score(kRefRejected),
                     .chosen_tokens = in.column(kChosenTokens),
                     .rejected_tokens = in.column(kRejectedTokens),
                     .chosen_text_tokens = in.column(kChosenPredicted)};
    pairs.chosen_text = weights == kNone ? pairs.chosen : scores.sum(tokens.log_prob, 0);
    if (settings_.use_weighting) pairs.weight = pair_weight(builder, in, scores);
    const ValueId loss = dpo::append_loss(builder, settings_, pairs);
    return {pw::mul(builder, loss, scale),
            {pairs.chosen, pairs.rejected, pw::sub(builder, pairs.chosen, pairs.ref_chosen),
             pw::sub(builder, pairs.rejected, pairs.ref_rejected), scores.sum(tokens.mean_logit, 0),
             scores.sum(tokens.mean_logit, 1), scores.sum(tokens.entropy, 0), scores.sum(tokens.entropy, 1),
             scores.sum(tokens.is_likeliest, 0)}};
  }

  [[nodiscard]] float scale(const StepTotals& step) const override {
    return 1.0f / static_cast<float>(step.micro_batches);
  }

  void observe(const Observation& seen, MetricSums& sums) const override {
    const auto reward = [&](size_t ratio) {
      return [&seen, ratio, beta = settings_.beta](int64_t row) { return beta * seen.number(ratio, row); };
    };
    sums.add("loss", seen.loss, static_cast<double>(seen.rows));
    add_reward_metrics(seen, reward(kChosenRatio), reward(kRejectedRatio), sums);
    add_row_mean(seen, "logps/chosen", kChosen, sums);
    add_row_mean(seen, "logps/rejected", kRejected, sums);
    add_token_mean(seen, "logits/chosen", {kChosenLogits}, {kChosenPredicted}, sums);
    add_token_mean(seen, "logits/rejected", {kRejectedLogits}, {kRejectedPredicted}, sums);
    add_token_mean(seen, "entropy", {kChosenEntropy, kRejectedEntropy}, {kChosenPredicted, kRejectedPredicted}, sums);
    add_token_mean(seen, "mean_token_accuracy", {kCorrect}, {kChosenPredicted}, sums, true);
  }

 private:
  void add_pair(data::MicroBatch& batch, const RowCompletions& row) const {
    add_sequence(batch, row.prompt, row.first);
    add_sequence(batch, row.prompt, row.second);
    ++batch.rows;
    const auto number = [&](std::string_view column, int64_t value) {
      batch.column(column).push_back(static_cast<float>(value));
    };
    number(kChosenTokens, std::ssize(row.first));
    number(kRejectedTokens, std::ssize(row.second));
    number(kChosenPredicted, predicted_tokens(row.prompt, row.first));
    number(kRejectedPredicted, predicted_tokens(row.prompt, row.second));
    if (settings_.ld_alpha) add_weights(batch, row);
  }

  // LD-DPO: tokens beyond the length of the shorter completion count less. A label's weight stands where it is
  // predicted.
  void add_weights(data::MicroBatch& batch, const RowCompletions& row) const {
    std::vector<float>& weights = batch.column(kTokenWeights);
    const int64_t predicted[] = {predicted_tokens(row.prompt, row.first), predicted_tokens(row.prompt, row.second)};
    const int64_t shared = std::min(predicted[0], predicted[1]);
    for (const auto& [completion, count] : {std::pair{row.first, predicted[0]}, {row.second, predicted[1]}}) {
      const int64_t length = std::ssize(row.prompt) + std::ssize(completion);
      const int64_t first = length - 1 - count;  // predicts the first label
      for (int64_t i = 0; i < length; ++i)
        weights.push_back(i < first + shared ? 1.0f : static_cast<float>(*settings_.ld_alpha));
    }
  }

  [[nodiscard]] ValueId token_weights(const ObjectiveInputs& in) const {
    return settings_.ld_alpha ? in.column(kTokenWeights) : kNone;
  }

  // WPO (Zhou et al., 2024): how likely the policy holds the completions, against how likely it holds its own.
  static ValueId pair_weight(Builder& builder, const ObjectiveInputs& in, const CompletionScores& scores) {
    const ops::LogProb& tokens = scores.tokens();
    const ValueId each = pw::sub(builder, tokens.log_prob, tokens.log_square_sum);
    const auto mean = [&](int64_t which, std::string_view column) {
      return pw::div(builder, scores.sum(each, which), pw::max_with(builder, in.column(column), 1));
    };
    const ValueId both = pw::add(builder, mean(0, kChosenPredicted), mean(1, kRejectedPredicted));
    return pw::detach(builder, pw::exp(builder, both));
  }

  config::PreferenceSettings settings_;
};

}  // namespace

ObjectivePtr dpo_objective(const config::PreferenceSettings& settings) { return std::make_shared<Dpo>(settings); }

}  // namespace spillway::train
