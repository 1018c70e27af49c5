#include "objectives/cpo/cpo.h"

#include <utility>

#include "base/error.h"
#include "objectives/completions.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row_sum/row_sum.h"

namespace spillway::train {
namespace {

using config::PreferenceLoss;
namespace pw = ops::pointwise;

constexpr std::string_view kChosenTokens = "chosen_predicted", kRejectedTokens = "rejected_predicted";

// Indices into Loss::observed.
enum Observed : size_t { kChosen, kRejected, kChosenReward, kRejectedReward, kText, kChosenLogits, kRejectedLogits };

class Cpo final : public PairObjective {
 public:
  using PairObjective::PairObjective;

  [[nodiscard]] std::vector<LossColumn> columns() const override {
    return {labels_column(), row_column(kChosenTokens), row_column(kRejectedTokens)};
  }

  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
    const CompletionScores scores(builder, in, 2);
    const ops::LogProb& tokens = scores.tokens();
    const ValueId text = scores.sum(tokens.log_prob, 0);
    ValueId chosen = text, rejected = scores.sum(tokens.log_prob, 1);
    if (type() == PreferenceLoss::kIpo || type() == PreferenceLoss::kSimpo) {
      chosen = pw::div(builder, chosen, in.column(kChosenTokens));
      rejected = pw::div(builder, rejected, in.column(kRejectedTokens));
    }
    const ValueId chosen_reward = reward(builder, chosen), rejected_reward = reward(builder, rejected);
    ValueId loss = ops::row_mean(builder, of_pairs(builder, pw::sub(builder, chosen_reward, rejected_reward)));
    if (settings().cpo_alpha != 0) {
      const ValueId mean =
          pw::div(builder, ops::row_mean(builder, text), ops::row_mean(builder, in.column(kChosenTokens)));
      loss = pw::add(builder, loss, pw::affine(builder, mean, -settings().cpo_alpha));
    }
    return {pw::mul(builder, loss, scale),
            {chosen, rejected, chosen_reward, rejected_reward, text, scores.sum(tokens.mean_logit, 0),
             scores.sum(tokens.mean_logit, 1)}};
  }

  [[nodiscard]] std::vector<std::string_view> metric_keys() const override {
    return completion_metric_keys({"nll_loss"});
  }
  void observe_rows(const Observation& seen, MetricSums& sums) const override {
    add_reward_metrics(seen, settings().beta, kChosenReward, kRejectedReward, sums);
    add_row_mean(seen, "logps/chosen", kChosen, sums);
    add_row_mean(seen, "logps/rejected", kRejected, sums);
    add_token_mean(seen, "logits/chosen", {kChosenLogits}, {kChosenTokens}, sums);
    add_token_mean(seen, "logits/rejected", {kRejectedLogits}, {kRejectedTokens}, sums);
    const auto text = [&](int64_t row) { return -seen.number(kText, row); };
    const auto tokens = [&](int64_t row) { return seen.column(kChosenTokens, row); };
    sums.add("nll_loss", settings().cpo_alpha == 0 ? 0 : seen.mean(text) / seen.mean(tokens));
  }

 private:
  [[nodiscard]] PreferenceLoss type() const { return settings().losses.front().loss; }

  void add_pair(data::MicroBatch& batch, const data::RowTable& rows, const data::Piece& piece) const override {
    const RowCompletions row = completions_of(rows, piece);
    for (const auto& [column, completion] : {std::pair{kChosenTokens, row.first}, {kRejectedTokens, row.second}}) {
      add_sequence(batch, row.prompt, completion);
      batch.column(column).push_back(static_cast<float>(predicted_tokens(row.prompt, completion)));
    }
  }

  // AlphaPO (Gupta et al., 2025): (1 - p^-alpha) / alpha in place of log p.
  ValueId reward(Builder& builder, ValueId log_prob) const {
    const double alpha = settings().alpha;
    if (alpha == 0) return log_prob;
    return pw::affine(builder, pw::exp(builder, pw::affine(builder, log_prob, -alpha)), -1 / alpha, 1 / alpha);
  }

  // Returns the loss of each pair from the difference of its rewards. Formulas are TRL 1.16's CPOTrainer.
  ValueId of_pairs(Builder& builder, ValueId difference) const {
    const double beta = settings().beta, smoothing = settings().label_smoothing;
    const auto logistic = [&](double factor, double constant) {
      return pw::affine(builder, pw::log_sigmoid(builder, pw::affine(builder, difference, factor, constant)), -1);
    };
    const auto smoothed = [&](double margin) {
      return pw::add(builder, pw::affine(builder, logistic(beta, -margin), 1 - smoothing),
                     pw::affine(builder, logistic(-beta, margin), smoothing));
    };
    switch (type()) {
      case PreferenceLoss::kSigmoid:
        return smoothed(0);
      case PreferenceLoss::kSimpo:
        return smoothed(settings().simpo_gamma);
      case PreferenceLoss::kHinge:
        return pw::relu(builder, pw::affine(builder, difference, -beta, 1));
      case PreferenceLoss::kIpo:
        return pw::square(builder, pw::affine(builder, difference, 1, -1 / (2 * beta)));
      default:
        SPILLWAY_CHECK(false, "no loss of CPO: {}", static_cast<int>(type()));
    }
  }
};

}  // namespace

ObjectivePtr cpo_objective(const config::PreferenceSettings& settings) { return std::make_shared<Cpo>(settings); }

}  // namespace spillway::train
