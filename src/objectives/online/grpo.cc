#include "objectives/online/grpo.h"

#include <algorithm>

#include "objectives/online/token_losses.h"
#include "ops/pointwise/pointwise.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;
using config::PolicyLoss;

// The weight of each token that counts in the loss, and the coefficient of the entropy of a micro-batch.
constexpr std::string_view kLossWeights = "loss_weights", kEntropyCoef = "entropy_coef";

// Indices into Loss::observed: sums over each completion.
enum Observed : size_t { kEntropy, kKl, kLowClipped, kHighClipped, kActing, kActingEntropy, kPhi };

class Grpo final : public OnlineObjective {
 public:
  Grpo(const config::OnlineSettings& settings, bool has_old_logps, int64_t accumulation)
      : OnlineObjective(settings, has_old_logps), accumulation_(accumulation) {}

  [[nodiscard]] std::vector<LossColumn> columns() const override {
    std::vector<LossColumn> columns = shared_columns();
    columns.push_back(token_column(kLossWeights));
    if (rewards_entropy()) columns.push_back(number_column(kEntropyCoef));
    return columns;
  }

  using OnlineObjective::fill;
  void fill(data::MicroBatch& stream, std::span<const TrainedCompletion> rows,
            const RoundTotals* round) const override {
    OnlineObjective::fill(stream, rows, round);
    int64_t tokens = 0;
    for (const TrainedCompletion& row : rows) tokens += row.tokens();
    const RoundTotals totals = round ? *round : RoundTotals();
    if (rewards_entropy()) stream.column(kEntropyCoef).push_back(static_cast<float>(totals.entropy_coef));
    std::vector<float>& weights = stream.column(kLossWeights);
    for (const TrainedCompletion& row : rows) {
      const auto weight = static_cast<float>(token_weight(row.tokens(), tokens, std::ssize(rows), totals));
      const std::vector<float>& mask = stream.column(kTokenMask);
      const size_t end = weights.size() + row.prompt.size() + row.ids.size();
      while (weights.size() < end) weights.push_back(mask[weights.size()] * weight);
    }
  }

  [[nodiscard]] Loss append(Builder& b, const ObjectiveInputs& in, ValueId scale) const override {
    const ops::LogProb token = tokens(b, in);
    const ValueId mask = in.column(kTokenMask);
    GrpoLoss loss(b, settings(),
                  {.log_prob = token.log_prob,
                   .old_log_prob = has_old_logps() ? in.score(kOldLogps) : pw::detach(b, token.log_prob),
                   .ref_log_prob = has_reference() ? in.score(kRefLogps) : kNone,
                   .entropy = token.entropy,
                   .mask = mask,
                   .weights = in.column(kLossWeights),
                   .advantages = in.column(kAdvantages),
                   .tokens = in.column(kCompletionTokens),
                   .seq_offsets = in.sequence_offsets()});
    const ValueId total = loss.total(rewards_entropy() ? in.column(kEntropyCoef) : kNone);
    std::vector<ValueId> observed = {sum(b, in, token.entropy),
                                     sum(b, in, loss.kl(), mask),
                                     sum(b, in, loss.low_clipped(), mask),
                                     sum(b, in, loss.high_clipped(), mask),
                                     sum(b, in, loss.acting()),
                                     sum(b, in, token.entropy, loss.acting())};
    if (loss.phi() != kNone) observed.push_back(loss.phi());
    return {pw::mul(b, total, scale), observed};
  }

  [[nodiscard]] ActingEntropy acting_entropy(const Observation& seen) const override {
    ActingEntropy entropy;
    for (int64_t row = 0; row < seen.rows; ++row) {
      entropy.sum += seen.number(kActingEntropy, row);
      entropy.tokens += seen.number(kActing, row);
    }
    return entropy;
  }

  // Adds means over tokens; those of clipping are over completions if ratios are per completion.
  void observe(const Observation& seen, MetricSums& sums) const override {
    sums.add("loss", seen.loss);
    const double tokens = seen.mean([&](int64_t row) { return seen.column(kCompletionTokens, row); });
    const auto token_mean = [&](size_t value) {
      return seen.mean([&](int64_t row) { return seen.number(value, row); }) / std::max(tokens, 1.0 / seen.rows);
    };
    if (has_reference()) sums.add("kl", token_mean(kKl));
    sums.add("entropy", token_mean(kEntropy));
    if (rewards_entropy()) sums.add("policy_loss", policy_loss(seen));
    if (settings().loss == PolicyLoss::kVespo)
      sums.add("vespo/phi_seq_mean", seen.mean([&](int64_t row) { return seen.number(kPhi, row); }));
    if (settings().loss == PolicyLoss::kCispo) sums.add_share("cispo_clip_ratio", clipped_share(seen, {kHighClipped}));
    if (!is_clipped(settings().loss)) return;
    sums.add_share("clip_ratio/low_mean", clipped_share(seen, {kLowClipped}));
    sums.add_share("clip_ratio/high_mean", clipped_share(seen, {kHighClipped}));
    sums.add_share("clip_ratio/region_mean", clipped_share(seen, {kLowClipped, kHighClipped}));
    // One number per completion. A completion without tokens has no share of clipped tokens, but it has a ratio.
    const bool is_of_rows = settings().importance_sampling_level == config::RatioLevel::kSequence;
    const auto extremes = [&](size_t value) {
      std::vector<double> shares;
      for (int64_t row = 0; row < seen.rows; ++row) {
        const double n = seen.column(kCompletionTokens, row);
        if (n > 0 || is_of_rows) shares.push_back(seen.number(value, row) / std::max(n, 1.0));
      }
      return shares;
    };
    if (const std::vector<double> low = extremes(kLowClipped), high = extremes(kHighClipped); !low.empty()) {
      sums.add_share("clip_ratio/low_min", *std::min_element(low.begin(), low.end()));
      sums.add_share("clip_ratio/high_max", *std::max_element(high.begin(), high.end()));
    }
  }

 private:
  [[nodiscard]] bool rewards_entropy() const { return settings().entropy_coef != 0 || settings().adaptive_entropy; }

  // Returns the weight of each token of a completion with `own` tokens, in a micro-batch of `rows` completions and
  // `all` tokens, before the division by accumulation.
  [[nodiscard]] double token_weight(int64_t own, int64_t all, int64_t rows, const RoundTotals& round) const {
    const auto most_one = [](int64_t n) { return static_cast<double>(std::max<int64_t>(1, n)); };
    const auto completions = static_cast<double>(rows);
    if (is_mean_over_round(settings().loss))
      return static_cast<double>(settings().steps_per_generation) / most_one(round.tokens);
    switch (settings().loss) {
      case PolicyLoss::kBnpo:
        return 1 / most_one(all);
      case PolicyLoss::kDrGrpo:
        return 1 / (completions * static_cast<double>(settings().completions.max_tokens));
      case PolicyLoss::kLuspo:
        return 1 / completions;
      default:  // of grpo and sapo
        return 1 / (completions * most_one(own));
    }
  }

  // Returns the loss without the entropy bonus. For a mean over a round, TRL reports a micro-batch's share of the
  // step's loss.
  [[nodiscard]] double policy_loss(const Observation& seen) const {
    const ActingEntropy entropy = acting_entropy(seen);
    const double loss = seen.loss + seen.column(kEntropyCoef, 0) * entropy.sum / std::max(1.0, entropy.tokens);
    return is_mean_over_round(settings().loss) ? loss / static_cast<double>(accumulation_) : loss;
  }

  // Returns the share of clipped tokens; of clipped completions if ratios are per completion.
  [[nodiscard]] double clipped_share(const Observation& seen, std::initializer_list<size_t> values) const {
    const bool is_of_rows = settings().importance_sampling_level == config::RatioLevel::kSequence;
    double sum = 0, count = 0;
    for (int64_t row = 0; row < seen.rows; ++row) {
      const double tokens = seen.column(kCompletionTokens, row);
      for (const size_t value : values) sum += seen.number(value, row) / (is_of_rows ? std::max(tokens, 1.0) : 1.0);
      count += is_of_rows ? 1 : tokens;
    }
    return sum / std::max(count, 1.0);
  }

  int64_t accumulation_;
};

}  // namespace

std::shared_ptr<const OnlineObjective> grpo_objective(const config::OnlineSettings& settings, bool has_old_logps,
                                                      int64_t accumulation) {
  return std::make_shared<Grpo>(settings, has_old_logps, accumulation);
}

}  // namespace spillway::train
