#include "ops/draw_token/token_distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "base/math.h"
#include "base/sizes.h"
#include "ops/logits/logit_weights.h"

namespace spillway::ops {

namespace {

// Returns log(exp(a) + exp(b)); a if b is NaN or -infinity.
double log_of_sum(double a, double b) {
  if (!(b > -std::numeric_limits<double>::infinity())) return a;
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

}  // namespace

int64_t OpenLogits::blocks() const { return div_ceil(std::ssize(logits_), kTokenBlock); }

std::span<const float> OpenLogits::block(int64_t index, Block& copy) const {
  const int64_t begin = index * kTokenBlock;
  const std::span<const float> logits = subspan_of(logits_, begin, std::min(kTokenBlock, std::ssize(logits_) - begin));
  bool is_copied = false;
  for (const int32_t id : barred_) {
    if (id < 0 || id / kTokenBlock != index) continue;
    if (!is_copied) std::copy(logits.begin(), logits.end(), copy.begin());
    is_copied = true;
    nth(copy, id % kTokenBlock) = -std::numeric_limits<float>::infinity();
  }
  return is_copied ? std::span<const float>(copy).first(logits.size()) : logits;
}

float OpenLogits::top() const {
  if (barred_.empty()) return largest_logit(logits_);
  Block copy;
  float top = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < blocks(); ++i) top = std::max(top, largest_logit(block(i, copy)));
  return top;
}

int32_t OpenLogits::likeliest() const {
  const float largest = top();
  Block copy;
  for (int64_t i = 0; i < blocks(); ++i) {
    const std::span<const float> logits = block(i, copy);
    const auto found = std::find(logits.begin(), logits.end(), largest);
    if (found != logits.end()) return static_cast<int32_t>(i * kTokenBlock + (found - logits.begin()));
  }
  return 0;
}

TokenDistribution::TokenDistribution(const OpenLogits& logits, float factor, std::span<double> sums)
    : logits_(logits), top_(logits.top()), factor_(factor), sums_(sums) {
  OpenLogits::Block weights;
  for (int64_t block = 0; block < std::ssize(sums_); ++block) total_ += nth(sums_, block) = weights_of(block, weights);
}

double TokenDistribution::weights_of(int64_t block, OpenLogits::Block& weights) const {
  OpenLogits::Block copy;
  const std::span<const float> logits = logits_.block(block, copy);
  return logit_weights(logits, top_, factor_, std::span(weights).first(logits.size()));
}

int32_t TokenDistribution::draw(double uniform) const {
  if (!(total_ > 0)) return 0;
  double left = uniform * total_;
  int64_t block = 0;
  while (block + 1 < std::ssize(sums_) && left >= nth(sums_, block)) left -= nth(sums_, block++);
  OpenLogits::Block weights{};
  weights_of(block, weights);
  int64_t last = 0;  // rounding may leave more than there is
  for (int64_t i = 0; i < kTokenBlock && left >= 0; ++i) {
    if (nth(weights, i) == 0) continue;
    last = i;
    left -= nth(weights, i);
  }
  return static_cast<int32_t>(block * kTokenBlock + last);
}

double TokenDistribution::log_probability(int32_t id) const {
  const auto exponent = [&](int32_t of) { return (static_cast<double>(logits_.logit(of)) - top_) * factor_; };
  double log_total = std::log(total_);
  for (const int32_t barred : logits_.barred()) {
    if (barred >= 0) log_total = log_of_sum(log_total, exponent(barred));
  }
  return exponent(id) - log_total;
}

}  // namespace spillway::ops
