#include "objectives/online/online_dpo.h"

#include <cmath>

#include "base/error.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row_sum/row_sum.h"
#include "ops/sequence_sum/sequence_sum.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

// Numbers of a row that only metrics read.
constexpr std::string_view kScores = "scores", kScoreMargin = "scores_margin";

// Numbers of a micro-batch: the coefficient beta in its epoch, and the epoch, by which metrics look up beta as the
// config has it, unrounded.
constexpr std::string_view kBeta = "beta", kEpoch = "epoch";

// Indices into Loss::observed.
enum Observed : size_t { kChosen, kRejected, kChosenRatio, kRejectedRatio };

// A row is the two completions of a prompt. The one with the higher score, or the first of equal ones, is the chosen
// one and comes first in the stream.
class OnlineDpo final : public OnlineObjective {
 public:
  explicit OnlineDpo(const config::OnlineSettings& settings) : OnlineObjective(settings, false) {}

  [[nodiscard]] int64_t sequences_per_row() const override { return 2; }
  [[nodiscard]] std::vector<LossColumn> columns() const override { return {labels_column(), number_column(kBeta)}; }

  using OnlineObjective::fill;
  void fill(data::MicroBatch& stream, std::span<const TrainedCompletion> rows,
            const RoundTotals* round) const override {
    SPILLWAY_CHECK(rows.size() % 2 == 0, "{} completions of pairs", rows.size());
    stream.clear();
    const int64_t epoch = round ? round->epoch : 0;
    stream.column(kBeta).push_back(static_cast<float>(settings().beta(epoch)));
    stream.column(kEpoch).push_back(static_cast<float>(epoch));
    for (size_t i = 0; i < rows.size(); i += 2) {
      const TrainedCompletion &first = rows[i], &second = rows[i + 1];
      const bool is_swapped = round != nullptr && second.score > first.score;
      for (const TrainedCompletion* one : {is_swapped ? &second : &first, is_swapped ? &first : &second}) {
        add_sequence(stream, one->prompt, one->ids);
        if (round != nullptr) add_per_token(stream.column(kRefLogps), *one, one->ref_logps);
      }
      stream.column(kScores).push_back(static_cast<float>((first.score + second.score) / 2));
      stream.column(kScoreMargin).push_back(static_cast<float>(std::abs(first.score - second.score)));
      ++stream.rows;
    }
  }

  [[nodiscard]] Loss append(Builder& b, const ObjectiveInputs& in, ValueId scale) const override {
    const ValueId policy = tokens(b, in).log_prob, reference = in.score(kRefLogps);
    const auto sum = [&](ValueId per_token, int64_t which) {
      return ops::sequence_sum(b, per_token, kNone, in.sequence_offsets(),
                               {.axis = kRowAxis, .first = which, .stride = 2});
    };
    const ValueId chosen = sum(policy, 0), rejected = sum(policy, 1);
    const ValueId chosen_ratio = pw::sub(b, chosen, sum(reference, 0));
    const ValueId rejected_ratio = pw::sub(b, rejected, sum(reference, 1));
    const ValueId preference = pw::sub(b, chosen_ratio, rejected_ratio);
    const ValueId loss = ops::row_mean(b, of_pairs(b, preference, in.column(kBeta)));
    return {pw::mul(b, loss, scale), {chosen, rejected, chosen_ratio, rejected_ratio}};
  }

  // Sums are over completions. The entropy is that of the drawn tokens only, as in TRL.
  void observe(const Observation& seen, MetricSums& sums) const override {
    const double beta = settings().beta(static_cast<int64_t>(seen.column(kEpoch, 0)));
    const auto half = [&](size_t chosen, size_t rejected) {
      return seen.mean([&](int64_t row) { return (seen.number(chosen, row) + seen.number(rejected, row)) / 2; });
    };
    const auto mean = [&](std::string_view column) {
      return seen.mean([&](int64_t row) { return seen.column(column, row); });
    };
    const double kl = half(kChosenRatio, kRejectedRatio);
    sums.add("loss", seen.loss);
    sums.add("objective/kl", kl);
    sums.add("objective/entropy", -half(kChosen, kRejected));
    sums.add("objective/non_score_reward", -beta * kl);
    sums.add("objective/rlhf_reward", mean(kScores) - beta * kl);
    sums.add("objective/scores", mean(kScores));
    sums.add("objective/scores_margin", mean(kScoreMargin));
    add_reward_metrics(seen, beta, kChosenRatio, kRejectedRatio, sums);
    add_row_mean(seen, "logps/chosen", kChosen, sums);
    add_row_mean(seen, "logps/rejected", kRejected, sums);
    sums.add("beta", beta);
  }

 protected:
  [[nodiscard]] double temperature() const override { return 1; }

 private:
  // Returns f32 [rows] for the policy's preference of the chosen completion minus that of the reference.
  [[nodiscard]] ValueId of_pairs(Builder& b, ValueId preference, ValueId beta) const {
    const ValueId margin = pw::mul(b, preference, beta);
    if (settings().pair_loss == config::OnlinePairLoss::kSigmoid) return pw::affine(b, pw::log_sigmoid(b, margin), -1);
    // preference - 1 / (2 beta).
    return pw::square(b, pw::div(b, pw::affine(b, margin, 1, -0.5), beta));
  }
};

}  // namespace

std::shared_ptr<const OnlineObjective> online_dpo_objective(const config::OnlineSettings& settings) {
  return std::make_shared<OnlineDpo>(settings);
}

}  // namespace spillway::train
