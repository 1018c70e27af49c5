#include "objectives/kto/kto.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "objectives/completions.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row_sum/row_sum.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

constexpr std::string_view kRefScores = "ref_logps", kRefMismatchedScores = "ref_KL_logps",
                           kMismatchedScores = "KL_logps";
// Columns per row: the weight of its loss; 1 for a desirable completion, else -1; and its predicted tokens.
constexpr std::string_view kWeight = "weight", kSign = "sign", kTokens = "completion_tokens";

// The streams: the rows, and the same prompts with mismatched completions.
constexpr int kRows = 0, kMismatched = 1;

// Indices into Loss::observed; the last only exists if the loss has it.
enum Observed : size_t { kScore, kRatio, kLogits, kEntropy, kKl };

class Kto final : public PreferenceObjective {
 public:
  Kto(const config::PreferenceSettings& settings, int64_t sequence_len)
      : PreferenceObjective(settings),
        sequence_len_(sequence_len),
        has_kl_(settings.losses.front().loss == config::PreferenceLoss::kKto) {}

  [[nodiscard]] int64_t sequences_per_row() const override { return 1; }
  [[nodiscard]] int streams() const override { return has_kl_ ? 2 : 1; }

  // TRL recommends that the weighted number of desirable rows is 1 to 4/3 times that of undesirable rows.
  void check(const data::RowTable& rows) const override {
    int64_t wanted = 0;
    for (int64_t i = 0; i < rows.size(); ++i) wanted += rows.value("label", i) != 0;
    const int64_t others = rows.size() - wanted;
    if (wanted == 0 || others == 0)
      throw input_error("datasets",
                        "expected completions that are wanted and others that are not, got {} rows, all {}; "
                        "correct the labels",
                        rows.size(), wanted == 0 ? "not wanted" : "wanted");
    if (settings().desirable_weight == 0 || settings().undesirable_weight == 0) return;  // one side alone is meant
    constexpr double kMaxShare = 4.0 / 3;
    const double share = settings().desirable_weight * static_cast<double>(wanted) /
                         (settings().undesirable_weight * static_cast<double>(others));
    if (share >= 0.995 && share <= kMaxShare + 0.005) return;
    const double even = settings().undesirable_weight * static_cast<double>(others) / static_cast<double>(wanted);
    log_warning("{} rows are wanted and {} are not: kto_desirable_weight from {:.2f} to {:.2f} would balance them",
                wanted, others, even, kMaxShare * even);
  }

  // TRL pairs each prompt with the completion of the previous row, among the rows of a micro-batch.
  void fill(std::span<data::MicroBatch> streams, const data::RowTable& rows,
            std::span<const data::Piece> pieces) const override {
    for (data::MicroBatch& stream : streams) stream.clear();
    for (size_t i = 0; i < pieces.size(); ++i) {
      const RowCompletions row = completions_of(rows, pieces[i]);
      add_row(streams[kRows], row, rows.value("label", pieces[i]) != 0);
      if (!has_kl_) continue;
      const data::Piece& before = pieces[(i + pieces.size() - 1) % pieces.size()];
      add_sequence(streams[kMismatched], row.prompt, completions_of(rows, before).first, data::Learned::kCompletion,
                   sequence_len_);
      ++streams[kMismatched].rows;
    }
  }

  [[nodiscard]] std::vector<LossColumn> columns() const override {
    std::vector<LossColumn> columns = {labels_column(), row_column(kWeight), row_column(kSign), row_column(kTokens)};
    if (has_kl_) columns.push_back(labels_column(kMismatched));
    return columns;
  }

  [[nodiscard]] std::vector<ScorePass> passes() const override {
    std::vector<ScorePass> passes = {{.section = "reference", .scores = {kRefScores}}};
    if (has_kl_) {
      passes.push_back(
          {.section = "reference on mismatched completions", .stream = kMismatched, .scores = {kRefMismatchedScores}});
      passes.push_back({.section = "policy on mismatched completions",
                        .by = ScoredBy::kPolicy,
                        .stream = kMismatched,
                        .scores = {kMismatchedScores}});
    }
    return passes;
  }
  [[nodiscard]] std::vector<ValueId> append_scores(Builder& builder, const ScorePass&,
                                                   const ObjectiveInputs& in) const override {
    const CompletionScores scores(builder, in, 1);
    return {scores.sum(scores.tokens().log_prob, 0)};
  }

  // weight * (1 - sigmoid(beta sign (ratio - kl))), with a kl of 0 in apo_zero_unpaired.
  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
    const CompletionScores scores(builder, in, 1);
    const ops::LogProb& tokens = scores.tokens();
    const ValueId policy = scores.sum(tokens.log_prob, 0), reference = in.score(kRefScores);
    ValueId gain = pw::sub(builder, policy, reference);
    Loss loss{.observed = {policy, gain, scores.sum(tokens.mean_logit, 0), scores.sum(tokens.entropy, 0)}};
    if (has_kl_) {
      const ValueId kl = divergence(builder, in);
      gain = pw::sub(builder, gain, kl);
      loss.observed.push_back(kl);
    }
    const ValueId signed_gain = pw::mul(builder, gain, in.column(kSign));
    const ValueId each = pw::sigmoid(builder, pw::affine(builder, signed_gain, -settings().beta));
    const ValueId mean = ops::row_mean(builder, pw::mul(builder, each, in.column(kWeight)));
    loss.loss = pw::mul(builder, mean, scale);
    return loss;
  }

  [[nodiscard]] std::vector<std::string_view> metric_keys() const override {
    return completion_metric_keys({"kl", "entropy"});
  }
  void observe_rows(const Observation& seen, MetricSums& sums) const override {
    sums.add("kl", has_kl_ ? seen.number(kKl) : 0);
    double rewards[2] = {};
    bool has[2] = {};
    for (const bool wanted : {true, false}) {
      const Label label{seen, wanted};
      has[wanted] = label.rows() > 0;
      if (!has[wanted]) continue;
      rewards[wanted] = settings().beta * label.mean(kRatio);
      sums.add(wanted ? "rewards/chosen" : "rewards/rejected", rewards[wanted]);
      sums.add(wanted ? "logps/chosen" : "logps/rejected", label.mean(kScore));
      if (label.tokens() > 0)
        sums.add(wanted ? "logits/chosen" : "logits/rejected", label.mean(kLogits) * label.rows() / label.tokens());
    }
    if (has[0] && has[1]) sums.add("rewards/margins", rewards[1] - rewards[0]);
    add_token_mean(seen, "entropy", {kEntropy}, {kTokens}, sums);
  }

 private:
  // The desirable rows of a micro-batch, or the undesirable ones.
  struct Label {
    const Observation& seen;
    bool wanted;

    [[nodiscard]] bool has(int64_t row) const { return (seen.column(kSign, row) > 0) == wanted; }
    template <typename F>
    [[nodiscard]] double sum(const F& f) const {
      double result = 0;
      for (int64_t row = 0; row < seen.rows; ++row) result += has(row) ? f(row) : 0;
      return result;
    }
    [[nodiscard]] double rows() const {
      return sum([](int64_t) { return 1.0; });
    }
    [[nodiscard]] double tokens() const {
      return sum([&](int64_t row) { return seen.column(kTokens, row); });
    }
    [[nodiscard]] double mean(size_t value) const {
      return sum([&](int64_t row) { return seen.number(value, row); }) / rows();
    }
  };

  void add_row(data::MicroBatch& batch, const RowCompletions& row, bool wanted) const {
    add_sequence(batch, row.prompt, row.first);
    ++batch.rows;
    batch.column(kWeight).push_back(
        static_cast<float>(wanted ? settings().desirable_weight : settings().undesirable_weight));
    batch.column(kSign).push_back(wanted ? 1.0f : -1.0f);
    batch.column(kTokens).push_back(static_cast<float>(predicted_tokens(row.prompt, row.first)));
  }

  // f32 [1].
  static ValueId divergence(Builder& builder, const ObjectiveInputs& in) {
    const ValueId ratio = pw::sub(builder, in.score(kMismatchedScores), in.score(kRefMismatchedScores));
    return pw::detach(builder, pw::relu(builder, ops::row_mean(builder, ratio)));
  }

  int64_t sequence_len_;
  bool has_kl_;
};

}  // namespace

ObjectivePtr kto_objective(const config::PreferenceSettings& settings, int64_t sequence_len) {
  return std::make_shared<Kto>(settings, sequence_len);
}

}  // namespace spillway::train
