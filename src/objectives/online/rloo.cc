#include "objectives/online/rloo.h"

#include <algorithm>

#include "objectives/online/token_losses.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row_sum/row_sum.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;

// The reward of a completion includes its KL to the reference, so the loss does not. The ratio of whole completions is
// clipped.
class Rloo final : public OnlineObjective {
 public:
  explicit Rloo(const config::OnlineSettings& settings) : OnlineObjective(settings, true) {}

  [[nodiscard]] std::vector<LossColumn> columns() const override { return shared_columns(); }

  [[nodiscard]] Loss append(Builder& b, const ObjectiveInputs& in, ValueId scale) const override {
    const ops::LogProb token = tokens(b, in);
    const ValueId ratio = pw::exp(b, sum(b, in, pw::sub(b, token.log_prob, in.score(kOldLogps))));
    const ValueId within = clamp(b, ratio, 1 - settings().epsilon, 1 + settings().epsilon_high);
    const ValueId loss = ops::row_mean(b, clipped_surrogate(b, ratio, within, in.column(kAdvantages)).loss);
    return {pw::mul(b, loss, scale), {sum(b, in, token.entropy), pw::detach(b, ratio)}};
  }

  void observe(const Observation& seen, MetricSums& sums) const override {
    sums.add("loss", seen.loss);
    const double tokens = seen.mean([&](int64_t row) { return seen.column(kCompletionTokens, row); });
    const double entropy = seen.mean([&](int64_t row) { return seen.number(0, row); });
    sums.add("entropy", tokens > 0 ? entropy / tokens : 0);
    double low = 0, high = 0;
    for (int64_t row = 0; row < seen.rows; ++row) {
      const double ratio = seen.number(1, row), advantage = seen.column(kAdvantages, row);
      low += ratio < 1 - settings().epsilon && advantage < 0;
      high += ratio > 1 + settings().epsilon_high && advantage > 0;
    }
    const auto rows = static_cast<double>(std::max<int64_t>(1, seen.rows));
    sums.add_share("clip_ratio/low_mean", low / rows);
    sums.add_share("clip_ratio/high_mean", high / rows);
    sums.add_share("clip_ratio/region_mean", (low + high) / rows);
    sums.add_share("clip_ratio/low_min", low == rows ? 1 : 0);
    sums.add_share("clip_ratio/high_max", high > 0 ? 1 : 0);
  }
};

}  // namespace

std::shared_ptr<const OnlineObjective> rloo_objective(const config::OnlineSettings& settings) {
  return std::make_shared<Rloo>(settings);
}

}  // namespace spillway::train
