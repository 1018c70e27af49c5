#include "objectives/online/token_losses.h"

#include <algorithm>
#include <cmath>

#include "objectives/objective.h"
#include "ops/pointwise/pointwise.h"
#include "ops/quantile_mask/quantile_mask.h"
#include "ops/row_sum/row_sum.h"
#include "ops/sequence_sum/sequence_sum.h"

namespace spillway::train {
namespace {

namespace pw = ops::pointwise;
using config::PolicyLoss;

// 1 where a number is below the limit, else 0; a constant.
ValueId is_below(Builder& b, ValueId x, double limit) {
  const ValueId number = pw::detach(b, x);
  return pw::where_below(b, pw::affine(b, number, 0, 1), number, std::nextafter(static_cast<float>(limit), -INFINITY));
}
}  // namespace

ValueId is_above(Builder& b, ValueId x, double limit) {
  const ValueId number = pw::detach(b, x);
  return pw::where_above(b, pw::affine(b, number, 0, 1), number, std::nextafter(static_cast<float>(limit), INFINITY));
}

ValueId clamp(Builder& b, ValueId x, double least, double most) {
  return pw::min_with(b, pw::max_with(b, x, least), most);
}

ClippedLoss clipped_surrogate(Builder& b, ValueId ratio, ValueId within, ValueId advantages) {
  const ValueId losses = pw::affine(b, advantages, -1);
  const ValueId unclipped = pw::mul(b, ratio, losses);
  return {pw::max(b, unclipped, pw::mul(b, within, losses)), unclipped};
}

ValueId is_raised(Builder& b, const ClippedLoss& clipped) {
  return is_above(b, pw::sub(b, clipped.loss, clipped.unclipped), 0);
}

bool is_clipped(PolicyLoss loss) {
  return loss != PolicyLoss::kCispo && loss != PolicyLoss::kSapo && loss != PolicyLoss::kVespo;
}

bool is_mean_over_round(PolicyLoss loss) {
  return loss == PolicyLoss::kDapo || loss == PolicyLoss::kCispo || loss == PolicyLoss::kVespo;
}

GrpoLoss::GrpoLoss(Builder& builder, const config::OnlineSettings& settings, const GrpoTokens& tokens)
    : b_(builder), settings_(settings), in_(tokens) {
  advantages_ = spread(in_.advantages);
  log_ratio_ = pw::sub(b_, in_.log_prob, in_.old_log_prob);
  const bool is_of_rows = settings.importance_sampling_level == config::RatioLevel::kSequence;
  full_ratio_ = pw::exp(b_, is_of_rows ? spread(row_mean(log_ratio_)) : log_ratio_);
  const bool has_delta = is_clipped(settings.loss) && settings.delta;
  ratio_ = has_delta ? pw::min_with(b_, full_ratio_, *settings.delta) : full_ratio_;
  acting_ = in_.mask;
  if (settings.top_entropy_quantile < 1)
    acting_ = ops::quantile_mask(b_, pw::detach(b_, in_.entropy), in_.mask, 1 - settings.top_entropy_quantile);
  zero_ = pw::affine(b_, in_.mask, 0);
  kl_ = zero_;
}

ValueId GrpoLoss::spread(ValueId per_row) {
  return ops::sequence_spread(b_, per_row, kNone, in_.seq_offsets, {.axis = kRowAxis});
}

ValueId GrpoLoss::row_mean(ValueId per_token) {
  const ValueId sum = ops::sequence_sum(b_, per_token, kNone, in_.seq_offsets, {.axis = kRowAxis});
  return pw::div(b_, sum, pw::max_with(b_, in_.tokens, 1));
}

ValueId GrpoLoss::total(ValueId entropy_coef) {
  ValueId loss = policy_loss();
  if (settings_.off_policy_mask_threshold) loss = pw::mul(b_, loss, spread(is_on_policy()));
  if (acting_ != in_.mask) loss = pw::mul(b_, loss, acting_);
  if (in_.ref_log_prob != kNone) loss = add_reference(loss);
  const ValueId total = ops::row_sum(b_, pw::mul(b_, loss, in_.weights));
  if (entropy_coef == kNone) return total;
  const ValueId sum = ops::row_sum(b_, pw::mul(b_, in_.entropy, acting_));
  const ValueId mean = pw::div(b_, sum, pw::max_with(b_, ops::row_sum(b_, acting_), 1));
  return pw::sub(b_, total, pw::mul(b_, mean, entropy_coef));
}

ValueId GrpoLoss::policy_loss() {
  switch (settings_.loss) {
    case PolicyLoss::kCispo:
      return weighted_log_prob(pw::detach(b_, pw::min_with(b_, ratio_, settings_.epsilon_high)));
    case PolicyLoss::kSapo:
      return sapo_loss();
    case PolicyLoss::kVespo:
      phi_ = gamma_weight();
      return weighted_log_prob(spread(phi_));
    default:
      return clipped_loss();
  }
}

ValueId GrpoLoss::clipped_loss() {
  const ValueId within = clamp(b_, full_ratio_, 1 - settings_.epsilon, 1 + settings_.epsilon_high);
  return clipped_surrogate(b_, ratio_, within, advantages_).loss;
}

// Returns the gate with its temperature by the sign of the advantage.
ValueId GrpoLoss::sapo_loss() {
  const auto soft = [&](double temperature, ValueId of) {
    const ValueId gate = pw::sigmoid(b_, pw::affine(b_, ratio_, temperature, -temperature));
    return pw::affine(b_, pw::mul(b_, gate, of), -4 / temperature);
  };
  return pw::add(b_, soft(settings_.sapo_temperature_pos, pw::max_with(b_, advantages_, 0)),
                 soft(settings_.sapo_temperature_neg, pw::min_with(b_, advantages_, 0)));
}

ValueId GrpoLoss::weighted_log_prob(ValueId weight) {
  return pw::affine(b_, pw::mul(b_, pw::mul(b_, weight, advantages_), in_.log_prob), -1);
}

// Returns e^lambda W^k e^(-lambda W) for each completion's ratio W, f32 [rows]; it does not matter where the advantage
// is 0.
ValueId GrpoLoss::gamma_weight() {
  const ValueId near = clamp(b_, pw::detach(b_, log_ratio_), -20, 20);
  const ValueId sum = ops::sequence_sum(b_, near, kNone, in_.seq_offsets, {.axis = kRowAxis});
  const ValueId log_w = clamp(b_, sum, std::log(1e-8), 20), w = pw::exp(b_, log_w);
  const auto phi = [&](double k, double lambda, ValueId is_chosen) {
    const double rate = std::max(lambda, 1e-4);
    const ValueId log_phi = pw::sub(b_, pw::affine(b_, log_w, k, rate), pw::affine(b_, w, rate));
    return pw::mul(b_, pw::exp(b_, log_phi), is_chosen);
  };
  const ValueId is_bad = is_below(b_, in_.advantages, 0);
  return pw::add(b_, phi(settings_.vespo_k_pos, settings_.vespo_lambda_pos, pw::affine(b_, is_bad, -1, 1)),
                 phi(settings_.vespo_k_neg, settings_.vespo_lambda_neg, is_bad));
}

// Returns 0 for bad completions that are far from the policy, else 1; f32 [rows].
ValueId GrpoLoss::is_on_policy() {
  const ValueId is_far = is_below(b_, row_mean(pw::detach(b_, log_ratio_)), -*settings_.off_policy_mask_threshold);
  return pw::affine(b_, pw::mul(b_, is_far, is_below(b_, in_.advantages, 0)), -1, 1);
}

// Adds Schulman's estimate of the KL, e^d - d - 1.
ValueId GrpoLoss::add_reference(ValueId loss) {
  const ValueId distance = pw::sub(b_, in_.ref_log_prob, in_.log_prob);
  ValueId kl = pw::sub(b_, pw::exp(b_, distance), pw::affine(b_, distance, 1, 1));
  if (settings_.use_bias_correction_kl) kl = pw::mul(b_, kl, full_ratio_);
  kl_ = pw::detach(b_, kl);
  return pw::add(b_, loss, pw::affine(b_, kl, settings_.beta()));
}

ValueId GrpoLoss::low_clipped() {
  if (!is_clipped(settings_.loss)) return zero_;
  return pw::mul(b_, is_below(b_, ratio_, 1 - settings_.epsilon), is_below(b_, advantages_, 0));
}

ValueId GrpoLoss::high_clipped() {
  if (!is_clipped(settings_.loss) && settings_.loss != PolicyLoss::kCispo) return zero_;
  const double most = settings_.loss == PolicyLoss::kCispo ? settings_.epsilon_high : 1 + settings_.epsilon_high;
  return pw::mul(b_, is_above(b_, ratio_, most), is_above(b_, advantages_, 0));
}

}  // namespace spillway::train
