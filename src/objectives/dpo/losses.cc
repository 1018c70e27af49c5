#include "objectives/dpo/losses.h"

#include <cmath>

#include "base/error.h"
#include "ops/pointwise/pointwise.h"
#include "ops/row_sum/row_sum.h"
#include "ops/sort_rows/sort_rows.h"

namespace spillway::train::dpo {
namespace {

using config::FDivergence;
using config::PreferenceLoss;
namespace pw = ops::pointwise;

class LossBuilder {
 public:
  LossBuilder(Builder& builder, const config::PreferenceSettings& settings, const Pairs& pairs)
      : b_(builder), settings_(settings), pairs_(pairs), beta_(settings.beta), smoothing_(settings.label_smoothing) {
    chosen_ = pw::sub(b_, pairs.chosen, pairs.ref_chosen);
    rejected_ = pw::sub(b_, pairs.rejected, pairs.ref_rejected);
    chosen_score_ = score(chosen_);
    rejected_score_ = score(rejected_);
  }

  // f32 [1]: the mean over the pairs.
  ValueId mean(PreferenceLoss loss) {
    if (loss == PreferenceLoss::kSft) return sft();
    ValueId each = of_pairs(loss);
    if (pairs_.weight != kNone) each = pw::mul(b_, each, pairs_.weight);
    return ops::row_mean(b_, each);
  }

 private:
  // The f-divergences of Wang et al. (2024), "Beyond Reverse KL", of the log-ratio of policy and reference.
  ValueId score(ValueId ratio) {
    constexpr double kLargestExponent = 80;  // e^80 is an f32
    const double power = settings_.f_alpha_divergence_coef - 1;
    switch (settings_.f_divergence_type) {
      case FDivergence::kForwardKl:
        return pw::affine(b_, pw::exp(b_, scaled(ratio, -1)), -1, 1);
      case FDivergence::kJs:
        return pw::affine(b_, pw::log_sigmoid(b_, ratio), 1, std::log(2.0));
      case FDivergence::kAlpha:
        if (std::abs(power) < 1e-6) return ratio;
        return pw::affine(b_, pw::exp(b_, pw::min_with(b_, scaled(ratio, power), kLargestExponent)), 1 / power,
                          -1 / power);
      case FDivergence::kReverseKl:
        break;
    }
    return ratio;
  }

  ValueId scaled(ValueId x, double factor) { return pw::affine(b_, x, factor); }
  ValueId sum(ValueId a, ValueId b) { return pw::add(b_, a, b); }
  // -log sigmoid(factor x).
  ValueId logistic(ValueId x, double factor) { return scaled(pw::log_sigmoid(b_, scaled(x, factor)), -1); }
  // sigmoid(factor x).
  ValueId share(ValueId x, double factor) { return pw::sigmoid(b_, scaled(x, factor)); }
  ValueId squared(ValueId x, double target) { return pw::square(b_, pw::affine(b_, x, 1, -target)); }
  ValueId smoothed(ValueId x) {
    return sum(scaled(logistic(x, beta_), 1 - smoothing_), scaled(logistic(x, -beta_), smoothing_));
  }

  ValueId delta() { return pw::sub(b_, chosen_score_, rejected_score_); }
  ValueId delta_per_token() {
    return pw::sub(b_, pw::div(b_, chosen_score_, pairs_.chosen_tokens),
                   pw::div(b_, rejected_score_, pairs_.rejected_tokens));
  }

  // Ji et al. (2024), "Towards Efficient Exact Optimization of Language Model Alignment", (16).
  ValueId exo_pair() {
    const ValueId d = delta();
    const auto side = [&](double factor, double log_target) {
      const ValueId log_ratio = pw::affine(b_, pw::log_sigmoid(b_, scaled(d, factor)), 1, -log_target);
      return pw::mul(b_, share(d, factor), log_ratio);
    };
    return sum(side(beta_, std::log1p(-smoothing_)), side(-beta_, std::log(smoothing_)));
  }

  ValueId nca_pair() {
    const ValueId pull = logistic(chosen_, beta_);
    return sum(pull, scaled(sum(logistic(chosen_, -beta_), logistic(rejected_, -beta_)), 0.5));
  }

  ValueId robust() {
    const ValueId d = delta(), clean = scaled(logistic(d, beta_), 1 - smoothing_),
                  flipped = scaled(logistic(d, -beta_), smoothing_);
    return scaled(pw::sub(b_, clean, flipped), 1 / (1 - 2 * smoothing_));
  }

  // Lu et al. (2024), "Discovering Preference Optimization Algorithms with and for Large Language Models", (5).
  ValueId discopop() {
    const ValueId logits = scaled(delta(), beta_);
    const ValueId share_of_exp = share(logits, 1 / settings_.discopop_tau);
    const ValueId logistic_part = pw::mul(b_, logistic(logits, 1), pw::affine(b_, share_of_exp, -1, 1));
    return sum(logistic_part, pw::mul(b_, pw::exp(b_, scaled(logits, -1)), share_of_exp));
  }

  // Melnyk et al. (2024), "Distributional Preference Alignment of LLMs via Optimal Transport": quantiles of the
  // micro-batch are compared in place of pairs.
  ValueId aot(ValueId one, ValueId other) {
    return smoothed(pw::sub(b_, ops::sort_rows(b_, one), ops::sort_rows(b_, other)));
  }

  // Each pair's: f32 [rows].
  ValueId of_pairs(PreferenceLoss loss) {
    switch (loss) {
      case PreferenceLoss::kSigmoid:
        return logistic(delta(), beta_);
      case PreferenceLoss::kHinge:
        return pw::relu(b_, pw::affine(b_, delta(), -beta_, 1));
      case PreferenceLoss::kIpo:
        return squared(delta_per_token(), 1 / (2 * beta_));
      case PreferenceLoss::kExoPair:
        return exo_pair();
      case PreferenceLoss::kNcaPair:
        return nca_pair();
      case PreferenceLoss::kRobust:
        return robust();
      case PreferenceLoss::kBcoPair:
        return sum(logistic(chosen_, beta_), logistic(rejected_, -beta_));
      case PreferenceLoss::kSppoHard:
        return sum(squared(chosen_, 0.5 / beta_), squared(rejected_, -0.5 / beta_));
      case PreferenceLoss::kAot:
        return aot(pw::sub(b_, pairs_.chosen, pairs_.rejected), pw::sub(b_, pairs_.ref_chosen, pairs_.ref_rejected));
      case PreferenceLoss::kAotUnpaired:
        return aot(chosen_, rejected_);
      case PreferenceLoss::kApoZero:  // 1 - sigmoid(x) is sigmoid(-x)
        return sum(share(chosen_, -beta_), share(rejected_, beta_));
      case PreferenceLoss::kApoDown:
        return sum(share(chosen_, beta_), share(pw::sub(b_, chosen_, rejected_), -beta_));
      case PreferenceLoss::kDiscopop:
        return discopop();
      case PreferenceLoss::kSigmoidNorm:
        return logistic(delta_per_token(), beta_);
      default:
        SPILLWAY_CHECK(false, "no loss of DPO: {}", static_cast<int>(loss));
    }
  }

  // This mean is over the tokens of the micro-batch, not over its pairs; weights of pairs multiply it by their mean.
  ValueId sft() {
    const ValueId mean =
        pw::div(b_, ops::row_mean(b_, pairs_.chosen_text), ops::row_mean(b_, pairs_.chosen_text_tokens));
    const ValueId loss = scaled(mean, -1);
    return pairs_.weight == kNone ? loss : pw::mul(b_, loss, ops::row_mean(b_, pairs_.weight));
  }

  Builder& b_;
  const config::PreferenceSettings& settings_;
  const Pairs& pairs_;
  double beta_, smoothing_;
  ValueId chosen_, rejected_;  // log-ratios of policy and reference
  ValueId chosen_score_, rejected_score_;
};

}  // namespace

ValueId append_loss(Builder& builder, const config::PreferenceSettings& settings, const Pairs& pairs) {
  LossBuilder losses(builder, settings, pairs);
  ValueId total = kNone;
  for (const config::WeightedLoss& one : settings.losses) {
    const ValueId term = pw::affine(builder, losses.mean(one.loss), one.weight);
    total = total == kNone ? term : pw::add(builder, total, term);
  }
  return total;
}

}  // namespace spillway::train::dpo
