#include "objectives/dpo/dpo.h"

#include <algorithm>

#include "base/sizes.h"
#include "objectives/completions.h"
#include "objectives/dpo/losses.h"
#include "ops/pointwise/pointwise.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

constexpr std::string_view kRefChosen = "ref_chosen_logps", kRefRejected = "ref_rejected_logps";
// Columns per row: the lengths of the completions, and how many of their tokens are predicted.
constexpr std::string_view kChosenTokens = "chosen_tokens", kRejectedTokens = "rejected_tokens",
                           kChosenPredicted = "chosen_predicted", kRejectedPredicted = "rejected_predicted";
constexpr std::string_view kTokenWeights = "token_weights";  // of ld_alpha, a number a token

// Indices into Loss::observed.
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

class Dpo final : public PairObjective {
 public:
  using PairObjective::PairObjective;

  [[nodiscard]] std::vector<LossColumn> columns() const override {
    std::vector<LossColumn> columns = {labels_column(), row_column(kChosenTokens), row_column(kRejectedTokens),
                                       row_column(kChosenPredicted), row_column(kRejectedPredicted)};
    if (settings().ld_alpha) columns.push_back(token_column(kTokenWeights));
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

  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
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
    if (settings().use_weighting) pairs.weight = pair_weight(builder, in, scores);
    const ValueId loss = dpo::append_loss(builder, settings(), pairs);
    return {pw::mul(builder, loss, scale),
            {pairs.chosen, pairs.rejected, pw::sub(builder, pairs.chosen, pairs.ref_chosen),
             pw::sub(builder, pairs.rejected, pairs.ref_rejected), scores.sum(tokens.mean_logit, 0),
             scores.sum(tokens.mean_logit, 1), scores.sum(tokens.entropy, 0), scores.sum(tokens.entropy, 1),
             scores.sum(tokens.is_likeliest, 0)}};
  }

  [[nodiscard]] std::vector<std::string_view> metric_keys() const override {
    return completion_metric_keys({"entropy", "mean_token_accuracy"});
  }
  void observe_rows(const Observation& seen, MetricSums& sums) const override {
    add_reward_metrics(seen, settings().beta, kChosenRatio, kRejectedRatio, sums);
    add_row_mean(seen, "logps/chosen", kChosen, sums);
    add_row_mean(seen, "logps/rejected", kRejected, sums);
    add_token_mean(seen, "logits/chosen", {kChosenLogits}, {kChosenPredicted}, sums);
    add_token_mean(seen, "logits/rejected", {kRejectedLogits}, {kRejectedPredicted}, sums);
    add_token_mean(seen, "entropy", {kChosenEntropy, kRejectedEntropy}, {kChosenPredicted, kRejectedPredicted}, sums);
    if (const std::optional<double> accuracy = token_mean(seen, {kCorrect}, {kChosenPredicted}))
      sums.add_share("mean_token_accuracy", *accuracy);
  }

 private:
  void add_pair(data::MicroBatch& batch, const data::RowTable& rows, const data::Piece& piece) const override {
    const RowCompletions row = completions_of(rows, piece);
    add_sequence(batch, row.prompt, row.first);
    add_sequence(batch, row.prompt, row.second);
    const auto number = [&](std::string_view column, int64_t value) {
      batch.column(column).push_back(static_cast<float>(value));
    };
    number(kChosenTokens, std::ssize(row.first));
    number(kRejectedTokens, std::ssize(row.second));
    number(kChosenPredicted, predicted_tokens(row.prompt, row.first));
    number(kRejectedPredicted, predicted_tokens(row.prompt, row.second));
    if (settings().ld_alpha) add_weights(batch, row);
  }

  // LD-DPO: tokens beyond the length of the shorter completion have less weight. A label's weight is at the position
  // that predicts it.
  void add_weights(data::MicroBatch& batch, const RowCompletions& row) const {
    std::vector<float>& weights = batch.column(kTokenWeights);
    const int64_t shared = std::min(predicted_tokens(row.prompt, row.first), predicted_tokens(row.prompt, row.second));
    const int64_t whole = first_prediction(row.prompt) + shared;
    for (const std::span<const int32_t> completion : {row.first, row.second}) {
      const int64_t length = std::ssize(row.prompt) + std::ssize(completion);
      append_repeated(weights, whole, 1.0f);
      append_repeated(weights, length - whole, static_cast<float>(*settings().ld_alpha));
    }
  }

  [[nodiscard]] ValueId token_weights(const ObjectiveInputs& in) const {
    return settings().ld_alpha ? in.column(kTokenWeights) : kNone;
  }

  // WPO (Zhou et al., 2024): weights pairs by the policy's probabilities of the completions, relative to those of its
  // own samples.
  static ValueId pair_weight(Builder& builder, const ObjectiveInputs& in, const CompletionScores& scores) {
    const ops::LogProb& tokens = scores.tokens();
    const ValueId each = pw::sub(builder, tokens.log_prob, tokens.log_square_sum);
    const auto mean = [&](int64_t which, std::string_view column) {
      return pw::div(builder, scores.sum(each, which), pw::max_with(builder, in.column(column), 1));
    };
    const ValueId both = pw::add(builder, mean(0, kChosenPredicted), mean(1, kRejectedPredicted));
    return pw::detach(builder, pw::exp(builder, both));
  }
};

}  // namespace

ObjectivePtr dpo_objective(const config::PreferenceSettings& settings) { return std::make_shared<Dpo>(settings); }

}  // namespace spillway::train
