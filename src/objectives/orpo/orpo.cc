#include "objectives/orpo/orpo.h"

#include "base/sizes.h"
#include "objectives/completions.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row_sum/row_sum.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

// Columns per row: the predicted tokens of the completions, and of the chosen sequence with its prompt.
constexpr std::string_view kChosenTokens = "chosen_predicted", kRejectedTokens = "rejected_predicted",
                           kTextTokens = "text_tokens";
constexpr std::string_view kInCompletion =
    "in_completion";  // 1 for a token that predicts one of the completion, else 0

// Indices into Loss::observed.
enum Observed : size_t { kChosen, kRejected, kText, kOdds, kRatio, kChosenLogits, kRejectedLogits };

class Orpo final : public PairObjective {
 public:
  using PairObjective::PairObjective;

  [[nodiscard]] std::vector<LossColumn> columns() const override {
    return {labels_column(), row_column(kChosenTokens), row_column(kRejectedTokens), row_column(kTextTokens),
            token_column(kInCompletion)};
  }

  // TRL 1.16's ORPOTrainer: NLL of the chosen sequence, prompt included, over all its tokens of the micro-batch, minus
  // beta times the mean of log sigmoid(log odds ratio), of mean log-probabilities.
  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
    const CompletionScores scores(builder, in, 2);
    const ops::LogProb& tokens = scores.tokens();
    const ValueId in_completion = in.column(kInCompletion);
    const auto mean_log_prob = [&](int64_t which, std::string_view count) {
      return pw::div(builder, scores.sum(tokens.log_prob, which, in_completion), in.column(count));
    };
    const ValueId chosen = mean_log_prob(0, kChosenTokens), rejected = mean_log_prob(1, kRejectedTokens);
    const ValueId log_odds =
        pw::sub(builder, pw::sub(builder, chosen, rejected),
                pw::sub(builder, pw::log1m_exp(builder, chosen), pw::log1m_exp(builder, rejected)));
    const ValueId ratio = pw::log_sigmoid(builder, log_odds);
    const ValueId text = scores.sum(tokens.log_prob, 0);
    const ValueId nll = pw::affine(
        builder, pw::div(builder, ops::row_mean(builder, text), ops::row_mean(builder, in.column(kTextTokens))), -1);
    const ValueId loss = pw::add(builder, nll, pw::affine(builder, ops::row_mean(builder, ratio), -settings().beta));
    return {pw::mul(builder, loss, scale),
            {chosen, rejected, text, log_odds, ratio, scores.sum(tokens.mean_logit, 0, in_completion),
             scores.sum(tokens.mean_logit, 1, in_completion)}};
  }

  [[nodiscard]] std::vector<std::string_view> metric_keys() const override {
    return completion_metric_keys({"nll_loss", "log_odds_ratio", "log_odds_chosen"});
  }
  void observe_rows(const Observation& seen, MetricSums& sums) const override {
    add_reward_metrics(seen, settings().beta, kChosen, kRejected, sums);
    add_row_mean(seen, "logps/chosen", kChosen, sums);
    add_row_mean(seen, "logps/rejected", kRejected, sums);
    add_token_mean(seen, "logits/chosen", {kChosenLogits}, {kChosenTokens}, sums);
    add_token_mean(seen, "logits/rejected", {kRejectedLogits}, {kRejectedTokens}, sums);
    const auto text = [&](int64_t row) { return -seen.number(kText, row); };
    sums.add("nll_loss", seen.mean(text) / seen.mean([&](int64_t row) { return seen.column(kTextTokens, row); }));
    add_row_mean(seen, "log_odds_ratio", kRatio, sums);
    add_row_mean(seen, "log_odds_chosen", kOdds, sums);
  }

 private:
  void add_pair(data::MicroBatch& batch, const data::RowTable& rows, const data::Piece& piece) const override {
    const RowCompletions row = completions_of(rows, piece);
    const auto add = [&](std::string_view column, std::span<const int32_t> completion, data::Learned learned) {
      add_sequence(batch, row.prompt, completion, learned);
      const int64_t predicted = predicted_tokens(row.prompt, completion);
      batch.column(column).push_back(static_cast<float>(predicted));
      std::vector<float>& weights = batch.column(kInCompletion);
      append_repeated(weights, first_prediction(row.prompt), 0.0f);
      append_repeated(weights, predicted, 1.0f);
      weights.resize(batch.ids.size());
    };
    add(kChosenTokens, row.first, data::Learned::kAll);
    add(kRejectedTokens, row.second, data::Learned::kCompletion);
    batch.column(kTextTokens).push_back(static_cast<float>(std::ssize(row.prompt) + std::ssize(row.first) - 1));
  }
};

}  // namespace

ObjectivePtr orpo_objective(const config::PreferenceSettings& settings) { return std::make_shared<Orpo>(settings); }

}  // namespace spillway::train
