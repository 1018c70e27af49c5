#include "train/generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_set>
#include <vector>

#include "base/index.h"
#include "ops/logits/logit_weights.h"

namespace spillway::train {
namespace {

// The first of the largest; the first of all where none is a number.
int32_t most_likely(std::span<const float> logits) {
  const auto best = std::find(logits.begin(), logits.end(), ops::largest_logit(logits));
  return best == logits.end() ? 0 : static_cast<int32_t>(best - logits.begin());
}

int32_t draw_filtered(std::span<const float> logits, const Sampling& sampling, double uniform) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  // What is no number comes last: sorting wants an order.
  const auto score = [&](int32_t id) {
    const float logit = nth(logits, id);
    return std::isnan(logit) ? -std::numeric_limits<float>::infinity() : logit;
  };
  const auto is_likelier = [&](int32_t a, int32_t b) {
    const float left = score(a), right = score(b);
    return left != right ? left > right : a < b;
  };
  // A vocabulary takes longer to sort than a small model to run.
  if (const int64_t top = sampling.top_k; top > 0 && top < std::ssize(ids)) {
    std::nth_element(ids.begin(), ids.begin() + top, ids.end(), is_likelier);
    ids.resize(static_cast<size_t>(top));
  }
  std::sort(ids.begin(), ids.end(), is_likelier);
  std::vector<double> weights;
  const float top = nth(logits, ids[0]);
  for (const int32_t id : ids)
    weights.push_back(std::exp((static_cast<double>(nth(logits, id)) - top) / sampling.temperature));
  double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && kept < sampling.top_p * total) kept += weights[count++];
  while (count > 1 && weights[count - 1] < sampling.min_p) --count;  // that of the likeliest is 1
  count = std::max<size_t>(count, 1);
  total = std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
  double left = uniform * total;
  for (size_t i = 0; i + 1 < count; ++i) {
    left -= weights[i];
    if (left < 0) return ids[i];
  }
  return ids[count - 1];
}

}  // namespace

void penalise_repetition(std::span<float> logits, std::span<const int32_t> seen, double penalty) {
  const std::unordered_set<int32_t> distinct(seen.begin(), seen.end());
  const auto factor = static_cast<float>(penalty);
  for (const int32_t id : distinct) {
    float& logit = nth(logits, id);
    logit = logit < 0 ? logit * factor : logit / factor;
  }
}

TokenDistribution::TokenDistribution(std::span<const float> logits, double temperature)
    : logits_(logits), top_(ops::largest_logit(logits)), factor_(static_cast<float>(1 / temperature)) {
  Weights weights;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    blocks_.push_back(weights_of(begin, weights));
    total_ += blocks_.back();
  }
}

double TokenDistribution::weights_of(size_t begin, Weights& weights) const {
  const std::span<const float> block = logits_.subspan(begin, std::min(kBlock, logits_.size() - begin));
  return ops::logit_weights(block, top_, factor_, std::span(weights).first(block.size()));
}

int32_t TokenDistribution::draw(double uniform) const {
  double left = uniform * total_;
  size_t block = 0;
  while (block + 1 < blocks_.size() && left >= blocks_[block]) left -= blocks_[block++];
  const size_t begin = block * kBlock, count = std::min(kBlock, logits_.size() - begin);
  Weights weights;
  weights_of(begin, weights);
  size_t last = 0;  // rounding may leave more than there is
  for (size_t i = 0; i < count && left >= 0; ++i) {
    if (weights[i] == 0) continue;
    last = i;
    left -= weights[i];
  }
  return static_cast<int32_t>(begin + last);
}

double TokenDistribution::log_probability(int32_t id) const {
  return (static_cast<double>(nth(logits_, id)) - top_) * factor_ - std::log(total_);
}

int32_t sample(std::span<const float> logits, const Sampling& sampling, double uniform) {
  if (sampling.temperature == 0) return most_likely(logits);
  if (sampling.draws_from_all()) return TokenDistribution(logits, sampling.temperature).draw(uniform);
  return draw_filtered(logits, sampling, uniform);
}

Choice choose_token(std::span<const float> logits, std::span<const float> scores, const Sampling& sampling,
                    std::optional<double> logprob_temperature, double uniform) {
  if (!logprob_temperature) return {sample(scores, sampling, uniform)};
  const TokenDistribution plain(logits, *logprob_temperature);
  // Often the distribution to draw from is the one that is asked for, and a vocabulary is long.
  const bool is_drawn_from =
      scores.data() == logits.data() && sampling.draws_from_all() && sampling.temperature == *logprob_temperature;
  const int32_t id = is_drawn_from ? plain.draw(uniform) : sample(scores, sampling, uniform);
  return {id, plain.log_probability(id)};
}

}  // namespace spillway::train
