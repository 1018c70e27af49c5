// Supervised fine-tuning and pretraining on text: the cross-entropy of each token that has a label, as a mean over the
// optimizer step.
#include <algorithm>
#include <cmath>

#include "config/config.h"
#include "objectives/objective.h"
#include "ops/linear_log_prob/linear_log_prob.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row_sum/row_sum.h"

namespace spillway::train {
namespace {

constexpr std::string_view kAccuracy = "mean_token_accuracy", kLogProb = "log_prob";

class Text : public Objective {
 public:
  // transformers' label_smoothing_factor, which also applies to evaluations.
  explicit Text(double label_smoothing = 0) : label_smoothing_(label_smoothing) {}

  [[nodiscard]] std::string_view name() const override { return "text"; }
  [[nodiscard]] bool is_sum_of_tokens() const override { return true; }

  void fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
            std::span<const data::Piece> pieces) const override {
    data::fill_micro_batch(streams[0], rows, pieces);
  }
  // The token that each position predicts; negative: none.
  [[nodiscard]] std::vector<LossColumn> columns() const override {
    return {{{"labels", fill_typical_ids}, i32_per_token}};
  }

  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
    const ModelGraph& model = in.model();
    const ops::CrossEntropy entropy =
        ops::linear_cross_entropy(builder, model.hidden, model.head, in.column("labels"), scale, in.gradients(),
                                  model.logit_cap, label_smoothing_);
    return {entropy.loss, {entropy.correct}};
  }

  [[nodiscard]] float scale(const StepTotals& step) const override {
    return 1.0f / static_cast<float>(std::max<int64_t>(1, step.targets));
  }
  void observe(const Observation& seen, MetricSums& sums) const override {
    const auto targets = static_cast<double>(seen.streams[0].targets);
    if (targets == 0) return;
    sums.add("loss", seen.loss / targets, targets);
    sums.add(kAccuracy, seen.number(0) / targets, targets);
  }
  [[nodiscard]] std::vector<std::string_view> metric_keys() const override { return {"loss", "perplexity", kAccuracy}; }
  void metrics(const MetricSums& sums, std::vector<Metric>& into) const override {
    const double loss = sums.mean("loss");
    into.clear();
    into.push_back({"loss", loss});
    into.push_back({"perplexity", std::exp(loss)});
    into.push_back({kAccuracy, sums.mean(kAccuracy), true});
  }

 private:
  double label_smoothing_;
};

namespace pw = ops::pointwise;

// A token's cross-entropy is weighted by a number that has no gradient.
class WeightedText : public Text {
 public:
  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
    const ModelGraph& model = in.model();
    const ops::LogProb tokens =
        ops::linear_log_prob(builder, model.hidden, model.head, in.column("labels"), 1, model.logit_cap, top_logits());
    const ValueId weight = pw::detach(builder, append_weight(builder, tokens));
    const ValueId sum = ops::row_sum(builder, pw::mul(builder, tokens.log_prob, weight));
    const ValueId loss = pw::mul(builder, pw::affine(builder, sum, -1), scale);
    return {loss, {ops::row_sum(builder, tokens.is_likeliest), ops::row_sum(builder, tokens.log_prob)}};
  }

  void observe(const Observation& seen, MetricSums& sums) const override {
    Text::observe(seen, sums);
    const auto targets = static_cast<double>(seen.streams[0].targets);
    if (targets != 0) sums.add(kLogProb, seen.number(1) / targets, targets);
  }
  void metrics(const MetricSums& sums, std::vector<Metric>& into) const override {
    into.clear();
    into.push_back({"loss", sums.mean("loss")});
    into.push_back({"perplexity", std::exp(-sums.mean(kLogProb))});
    into.push_back({kAccuracy, sums.mean(kAccuracy), true});
  }

 private:
  // Returns the `top` of linear_log_prob.
  [[nodiscard]] virtual int64_t top_logits() const { return 0; }
  // Returns each token's weight: f32 [T].
  [[nodiscard]] virtual ValueId append_weight(Builder& builder, const ops::LogProb& tokens) const = 0;
};

// DFT (Wu et al., On the Generalization of SFT, 2025): the weight is the token's probability, as in TRL.
class ProbabilityWeightedText final : public WeightedText {
  [[nodiscard]] std::string_view name() const override { return "dft"; }
  [[nodiscard]] ValueId append_weight(Builder& builder, const ops::LogProb& tokens) const override {
    return pw::exp(builder, tokens.log_prob);
  }
};

// EAFT: the weight is the entropy of the likeliest tokens to the power of alpha, as in axolotl.
class EntropyWeightedText final : public WeightedText {
 public:
  explicit EntropyWeightedText(const config::EntropyWeight& weight) : weight_(weight) {}

  [[nodiscard]] std::string_view name() const override { return "eaft"; }

 private:
  [[nodiscard]] int64_t top_logits() const override { return weight_.top; }
  [[nodiscard]] ValueId append_weight(Builder& builder, const ops::LogProb& tokens) const override {
    if (weight_.alpha == 1) return tokens.top_entropy;
    constexpr double kLeast = 1e-30;  // has a logarithm
    const ValueId log = pw::log(builder, pw::max_with(builder, tokens.top_entropy, kLeast));
    return pw::exp(builder, pw::affine(builder, log, weight_.alpha));
  }

  config::EntropyWeight weight_;
};

}  // namespace

const ObjectivePtr& weighted_text_objective() {
  static const ObjectivePtr kText = std::make_shared<ProbabilityWeightedText>();
  return kText;
}

ObjectivePtr entropy_weighted_text_objective(const config::EntropyWeight& weight) {
  return std::make_shared<EntropyWeightedText>(weight);
}

ObjectivePtr smoothed_text_objective(double label_smoothing) { return std::make_shared<Text>(label_smoothing); }

const ObjectivePtr& text_objective() {
  static const ObjectivePtr kText = std::make_shared<Text>();
  return kText;
}

}  // namespace spillway::train
