#include "objectives/online/ppo.h"

#include <algorithm>

#include "base/error.h"
#include "objectives/online/token_losses.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row_sum/row_sum.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

// Columns: the return of each state; 1 / the micro-batch's number of tokens at each token; and 1 / its number of states
// at each state.
constexpr std::string_view kReturns = "returns", kTokenWeights = "token_weights", kStateWeights = "state_weights";
// Only metrics read it: the length of the round's longest completion, which TRL pads the others to.
constexpr std::string_view kLongest = "longest";

// Indices into Loss::observed: a completion's share of a mean over the tokens, or the states, of the micro-batch.
enum Observed : size_t { kPolicyLoss, kValueLoss, kSquaredLogRatio, kRatio, kClipped, kValueClipped, kEntropy };

// The type of the product with a head of one row.
ValueType f32_of_each_token(const Graph& graph, const ModelGraph&) {
  return {DType::kF32, {graph.tokens(), 1}, kTokenAxis};
}

// Returns the value of the state after each token.
ValueId values_of(Builder& b, const ModelGraph& model) {
  return ops::matmul(b, model.hidden, model.head, {.transpose_b = true, .out_dtype = DType::kF32});
}

class Ppo final : public OnlineObjective {
 public:
  Ppo(const config::OnlineSettings& settings, int64_t accumulation)
      : OnlineObjective(settings, true),
        micro_batches_(static_cast<double>(settings.updates_per_step() * accumulation)) {}

  [[nodiscard]] std::vector<LossColumn> columns() const override {
    return {labels_column(),
            token_column(kAdvantages),
            {token_column(kReturns).column, f32_of_each_token},
            token_column(kTokenWeights),
            token_column(kStateWeights)};
  }

  [[nodiscard]] std::vector<ScorePass> passes() const override {
    std::vector<ScorePass> passes = OnlineObjective::passes();
    passes.push_back({.section = "value model",
                      .by = ScoredBy::kValue,
                      .scores = {kValues},
                      .type = f32_of_each_token,
                      .is_run_before = true});
    return passes;
  }
  [[nodiscard]] std::vector<ValueId> append_scores(Builder& builder, const ScorePass& pass,
                                                   const ObjectiveInputs& inputs) const override {
    if (pass.by == ScoredBy::kValue) return {values_of(builder, inputs.model())};
    return OnlineObjective::append_scores(builder, pass, inputs);
  }

  using OnlineObjective::fill;
  void fill(data::MicroBatch& stream, std::span<const TrainedCompletion> rows,
            const RoundTotals* round) const override {
    stream.clear();
    double tokens = 0, states = 0;
    for (const TrainedCompletion& row : rows) {
      tokens += static_cast<double>(row.ids.size());
      states += static_cast<double>(row.returns.size());
    }
    for (const TrainedCompletion& row : rows) {
      SPILLWAY_CHECK(!row.prompt.empty(), "a completion without a prompt");
      add_sequence(stream, row.prompt, row.ids);
      const std::vector<float> of_tokens(row.ids.size(), static_cast<float>(1 / tokens)),
          of_states(row.returns.size(), static_cast<float>(1 / states));
      add_per_token(stream.column(kAdvantages), row, row.advantages);
      add_per_token(stream.column(kReturns), row, row.returns);
      add_per_token(stream.column(kTokenWeights), row, of_tokens);
      add_per_token(stream.column(kStateWeights), row, of_states);
      stream.column(kCompletionTokens).push_back(static_cast<float>(row.ids.size()));
      ++stream.rows;
      if (round == nullptr) continue;
      add_per_token(stream.column(kOldLogps), row, row.old_logps);
      add_per_token(stream.column(kRefLogps), row, row.ref_logps);
      add_per_token(stream.column(kValues), row, row.values);
    }
    if (round != nullptr) stream.column(kLongest).push_back(static_cast<float>(round->longest));
  }

  [[nodiscard]] Loss append(Builder& b, const ObjectiveInputs& in, ValueId scale) const override {
    const ops::LogProb token = tokens(b, in);
    const ValueId of_tokens = in.column(kTokenWeights), of_states = in.column(kStateWeights);
    const ValueId log_ratio = pw::sub(b, token.log_prob, in.score(kOldLogps)), ratio = pw::exp(b, log_ratio);
    const double range = settings().ppo.cliprange;
    const ClippedLoss token_loss =
        clipped_surrogate(b, ratio, clamp(b, ratio, 1 - range, 1 + range), in.column(kAdvantages));
    const ClippedLoss state_loss =
        value_loss(b, values_of(b, in.value_model()), in.score(kValues), in.column(kReturns));
    const ValueId policy = sum(b, in, token_loss.loss, of_tokens), value = sum(b, in, state_loss.loss, of_states);
    const ValueId weighted = pw::affine(b, ops::row_sum(b, value), settings().ppo.vf_coef);
    const ValueId loss = pw::add(b, ops::row_sum(b, policy), weighted);
    return {
        pw::mul(b, loss, scale),
        {pw::detach(b, policy), pw::detach(b, value), sum(b, in, pw::square(b, pw::detach(b, log_ratio)), of_tokens),
         sum(b, in, pw::detach(b, ratio), of_tokens), sum(b, in, is_raised(b, token_loss), of_tokens),
         sum(b, in, is_raised(b, state_loss), of_states), sum(b, in, token.entropy, of_tokens)}};
  }

  void observe(const Observation& seen, MetricSums& sums) const override {
    const auto total = [&](size_t value) {
      double sum = 0;
      for (int64_t row = 0; row < seen.rows; ++row) sum += seen.number(value, row);
      return sum;
    };
    double tokens = 0;
    for (int64_t row = 0; row < seen.rows; ++row) tokens += seen.column(kCompletionTokens, row);
    // TRL's means include padding, where nothing has changed.
    const double share = tokens / (static_cast<double>(seen.rows) * seen.column(kLongest, 0));
    const double ratio = share * total(kRatio) + 1 - share;
    sums.add("loss", seen.loss);
    sums.add("loss/policy_avg", total(kPolicyLoss));
    sums.add("loss/value_avg", total(kValueLoss));
    sums.add("policy/approxkl_avg", share * total(kSquaredLogRatio) / 2);
    sums.add_share("policy/clipfrac_avg", total(kClipped));
    sums.add("policy/entropy_avg", total(kEntropy));
    sums.add_share("val/clipfrac_avg", total(kValueClipped));
    sums.add(kRatioKey, ratio);
    sums.add(kRatioVarianceKey, ratio * ratio);
  }
  // Computes the variance over the micro-batches of a step from the mean of squares.
  void metrics(const MetricSums& sums, std::vector<Metric>& into) const override {
    sums.means(into);
    const double mean = sums.mean(kRatioKey);
    std::erase_if(into, [&](const Metric& one) { return one.key == kRatioVarianceKey && micro_batches_ < 2; });
    for (Metric& one : into) {
      if (one.key != kRatioVarianceKey) continue;
      one.value = std::max(0.0, one.value - mean * mean) * micro_batches_ / (micro_batches_ - 1);
    }
  }

 private:
  static constexpr std::string_view kRatioKey = "val/ratio", kRatioVarianceKey = "val/ratio_var";

  // Returns the loss of each state. A value within the range stays the same to the last bit, so that its two losses are
  // equal.
  [[nodiscard]] ClippedLoss value_loss(Builder& b, ValueId values, ValueId old_values, ValueId returns) const {
    const double range = settings().ppo.cliprange_value;
    const ValueId change = pw::sub(b, values, old_values);
    const ValueId beyond = pw::sub(b, change, clamp(b, change, -range, range));
    const auto half_square = [&](ValueId from) { return pw::affine(b, pw::square(b, pw::sub(b, from, returns)), 0.5); };
    const ValueId clipped = half_square(pw::sub(b, values, beyond)), loss = half_square(values);
    return {pw::max(b, loss, clipped), loss};
  }

  double micro_batches_;  // of a step
};

}  // namespace

std::shared_ptr<const OnlineObjective> ppo_objective(const config::OnlineSettings& settings, int64_t accumulation) {
  return std::make_shared<Ppo>(settings, accumulation);
}

}  // namespace spillway::train
