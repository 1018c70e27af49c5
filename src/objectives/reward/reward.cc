#include "objectives/reward/reward.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "infer/scoring/reward_model.h"
#include "objectives/completions.h"
#include "ops/matmul/matmul.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row_sum/row_sum.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

constexpr std::string_view kIsLast = "is_last";  // 1 for the token whose score counts, else 0
constexpr std::string_view kMargin = "margin";   // a number a row

// Indices into Loss::observed.
enum Observed : size_t { kChosen, kRejected };

class Reward final : public PairObjective {
 public:
  Reward(const config::PreferenceSettings& settings, std::optional<int32_t> padding)
      : PairObjective(settings), padding_(padding) {}

  [[nodiscard]] std::vector<LossColumn> columns() const override {
    return {token_column(kIsLast), row_column(kMargin)};
  }

  // TRL 1.16's RewardTrainer: -log sigmoid(chosen - rejected - margin), and the square of their sum.
  [[nodiscard]] Loss append(Builder& builder, const ObjectiveInputs& in, ValueId scale) const override {
    const ValueId scores =
        ops::matmul(builder, in.model().hidden, in.model().head, {.transpose_b = true, .out_dtype = DType::kF32});
    const auto score_of = [&](int64_t which) {
      return sum_of_sequences(builder, in, scores, in.column(kIsLast), which, 2);
    };
    const ValueId chosen = score_of(0), rejected = score_of(1);
    const ValueId lead = pw::sub(builder, pw::sub(builder, chosen, rejected), in.column(kMargin));
    ValueId loss = pw::affine(builder, ops::row_mean(builder, pw::log_sigmoid(builder, lead)), -1);
    if (settings().center_rewards_coefficient != 0) {
      const ValueId square = ops::row_mean(builder, pw::square(builder, pw::add(builder, chosen, rejected)));
      loss = pw::add(builder, loss, pw::affine(builder, square, settings().center_rewards_coefficient));
    }
    return {pw::mul(builder, loss, scale), {chosen, rejected}};
  }

  [[nodiscard]] std::vector<std::string_view> metric_keys() const override {
    return {"loss", "min_reward", "mean_reward", "max_reward", "accuracy", "margin"};
  }
  void observe_rows(const Observation& seen, MetricSums& sums) const override {
    const auto chosen = [&](int64_t row) { return seen.number(kChosen, row); };
    const auto rejected = [&](int64_t row) { return seen.number(kRejected, row); };
    double least = chosen(0), most = chosen(0);
    for (int64_t row = 0; row < seen.rows; ++row) {
      least = std::min({least, chosen(row), rejected(row)});
      most = std::max({most, chosen(row), rejected(row)});
    }
    sums.add("min_reward", least);
    sums.add("mean_reward", (seen.mean(chosen) + seen.mean(rejected)) / 2);
    sums.add("max_reward", most);
    sums.add_share("accuracy", seen.mean([&](int64_t row) { return chosen(row) > rejected(row) ? 1.0 : 0.0; }));
    sums.add("margin", seen.mean([&](int64_t row) { return chosen(row) - rejected(row); }));
  }

 private:
  void add_pair(data::MicroBatch& batch, const data::RowTable& rows, const data::Piece& piece) const override {
    const RowCompletions row = completions_of(rows, piece);
    batch.column(kMargin).push_back(std::bit_cast<float>(rows.value("margin", piece)));
    for (const std::span<const int32_t> conversation : {row.first, row.second}) {
      add_sequence(batch, {}, conversation);
      std::vector<float>& is_last = batch.column(kIsLast);
      const size_t begin = is_last.size();
      is_last.resize(begin + conversation.size());
      is_last[begin + infer::scored_token(conversation, padding_)] = 1;
    }
  }

  std::optional<int32_t> padding_;
};

}  // namespace

ObjectivePtr reward_objective(const config::PreferenceSettings& settings, std::optional<int32_t> padding) {
  return std::make_shared<Reward>(settings, padding);
}

}  // namespace spillway::train
